"""Test when an arm fails too often."""

from __future__ import annotations

import pytest
from scipy import stats

from judging.result import Result
from judging.sequential import fails_more, failure_note

GOOD, FAILED = Result(80.0), Result(70.0, succeeded=False)


@pytest.mark.parametrize(("failed", "jobs", "others", "jobs_baseline"), [(7, 9, 0, 9), (3, 9, 0, 9), (2, 5, 4, 9)])
def test_the_rates_are_compared_by_fishers_exact_test(failed: int, jobs: int, others: int, jobs_baseline: int) -> None:
    table = [[failed, jobs - failed], [others, jobs_baseline - others]]
    expected = stats.fisher_exact(table, alternative="greater").pvalue
    assert fails_more(failed, jobs, others, jobs_baseline) == pytest.approx(expected)


def test_more_than_a_third_of_failures_is_too_many() -> None:
    assert failure_note([GOOD, GOOD, FAILED], [GOOD] * 3) == ""
    assert failure_note([GOOD] * 3 + [FAILED] * 2, [GOOD] * 5) == "2 of 5 jobs failed, more than a third"


def test_failures_beyond_chance_are_too_many() -> None:
    arm, baseline = [GOOD] * 10 + [FAILED] * 5, [GOOD] * 15
    assert failure_note(arm, baseline) == "5 of 15 jobs failed, against 0 of 15: more than chance explains"
    assert failure_note(arm, arm) == ""
    assert failure_note(baseline, arm) == ""
