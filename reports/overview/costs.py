"""What tracked jobs came to: how they ended, and what was paid for them. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from mlflow.entities import Run

from tracking.queries.metric_histories import number

STATUSES = {"FINISHED": "finished", "FAILED": "failed", "KILLED": "stopped"}
"""MLflow's names of how a job ended, and the words for them; every other one is of a job that still runs."""
RUNNING = "running"


@dataclass(frozen=True, kw_only=True, slots=True)
class TrackedJob:
    """One job, as far as an overview needs it: there may be tens of thousands."""

    group: str | None
    """Id of its group, or None."""
    arm: str
    status: str
    """finished, failed, stopped or running."""
    started_at: datetime
    """When its run began, UTC."""
    billable_instance_seconds: float
    """NaN without a billing record."""
    usd: float
    """NaN without a price."""
    price: str | None
    """Source and date of the price."""
    kept_instance_seconds: float
    """Billed beside the job for machines that stayed for a next one; 0 where there were none."""
    kept_usd: float
    """What they cost, 0 where that is not known."""


@dataclass(frozen=True, kw_only=True)
class Bill:
    """What some jobs came to, and what was paid for them."""

    label: str
    """Which jobs these are, such as a month."""
    finished: int
    failed: int
    stopped: int
    running: int
    billable_instance_seconds: float
    """Of those that tell it, whatever their end."""
    usd: float
    """Of those with a price; NaN where none has one."""
    unbilled: int
    """Jobs that ended without a billing record."""
    unpriced: int
    """Jobs with a billing record and without a price."""

    @property
    def jobs(self) -> int:
        """How many these are."""
        return self.finished + self.failed + self.stopped + self.running


def job_of_run(run: Run) -> TrackedJob:
    """Return a job as its run tells it."""
    tags = run.data.tags
    source, date = (tags.get(f"platform.price_{name}") for name in ("source", "date"))
    return TrackedJob(
        group=tags.get("platform.group"),
        arm=tags.get("platform.arm") or "unnamed",
        status=STATUSES.get(run.info.status, RUNNING),
        started_at=started_at(run),
        billable_instance_seconds=_told(run, "cost/billable_instance_seconds"),
        usd=_told(run, "cost/usd"),
        price=f"{source}, {date}" if source and date else source,
        kept_instance_seconds=_told(run, "cost/warm_pool_instance_seconds", otherwise=0.0),
        kept_usd=_told(run, "cost/warm_pool_usd", otherwise=0.0),
    )


def bill_of(label: str, jobs: Sequence[TrackedJob]) -> Bill:
    """Return what these jobs came to."""
    count = Counter(job.status for job in jobs)
    billed = [job for job in jobs if math.isfinite(job.billable_instance_seconds)]
    priced = [job.usd for job in jobs if math.isfinite(job.usd)]
    return Bill(
        label=label,
        finished=count["finished"],
        failed=count["failed"],
        stopped=count["stopped"],
        running=count[RUNNING],
        billable_instance_seconds=math.fsum(job.billable_instance_seconds for job in billed),
        usd=math.fsum(priced) if priced else math.nan,
        unbilled=sum(job.status != RUNNING and math.isnan(job.billable_instance_seconds) for job in jobs),
        unpriced=sum(math.isnan(job.usd) for job in billed),
    )


def started_at(run: Run) -> datetime:
    return datetime.fromtimestamp((run.info.start_time or 0) / 1000, UTC)


def _told(run: Run, metric: str, otherwise: float = math.nan) -> float:
    value = number(run.data.metrics.get(metric, math.nan))
    return value if math.isfinite(value) and value >= 0 else otherwise
