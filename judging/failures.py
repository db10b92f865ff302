"""Failed jobs: does an arm fail too often to be recommended?"""

from __future__ import annotations

import math
from collections.abc import Sequence

from judging.result import Result

MOST_FAILURES = 1 / 3
"""Largest share of failed jobs with which an arm can be called cheaper: 1 of 3, 3 of 9."""
CHANCE = 0.05
"""An arm that fails as much more often than the baseline has this probability if both fail equally often."""


def failure_note(arm: Sequence[Result], baseline: Sequence[Result]) -> str:
    """Return why the arm fails too often to be called cheaper, or an empty text."""
    failed, jobs = _failed(arm), len(arm)
    if failed > MOST_FAILURES * jobs:
        return f"{failed} of {jobs} jobs failed, more than a third"
    others = _failed(baseline)
    if fails_more(failed, jobs, others, len(baseline)) <= CHANCE:
        return f"{failed} of {jobs} jobs failed, against {others} of {len(baseline)}: more than chance explains"
    return ""


def fails_more(failed: int, jobs: int, failed_baseline: int, jobs_baseline: int) -> float:
    """Return the one-sided p-value of Fisher's exact test (1934) that the arm fails no more often than the baseline."""
    total, all_failed = jobs + jobs_baseline, failed + failed_baseline
    most = min(all_failed, jobs)
    ways = sum(math.comb(jobs, k) * math.comb(jobs_baseline, all_failed - k) for k in range(failed, most + 1))
    return ways / math.comb(total, all_failed)


def _failed(results: Sequence[Result]) -> int:
    return sum(not result.succeeded for result in results)
