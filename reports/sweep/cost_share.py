"""Cost of a part of a sweep's jobs. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from reports.comparison.arms import Job
from reports.comparison.equal_work import BILLABLE, DOLLARS


@dataclass(frozen=True, kw_only=True)
class CostShare:
    """Cost of a part of a sweep's jobs."""

    what: str
    """Role of the jobs, or outcome of the trials."""
    jobs: int
    seconds: float
    """Billable instance seconds."""
    usd: float
    """NaN if no price is known."""


def cost_share(what: str, jobs: Sequence[Job]) -> CostShare:
    """Return the cost of these jobs; costs that are not finite do not count."""
    seconds = math.fsum(value for job in jobs if 0 < (value := job.number(BILLABLE)) < math.inf)
    usd = [value for job in jobs if 0 <= (value := job.number(DOLLARS.column)) < math.inf]
    return CostShare(what=what, jobs=len(jobs), seconds=seconds, usd=math.fsum(usd) if usd else math.nan)
