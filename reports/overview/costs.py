"""Outcomes and costs of tracked jobs. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from mlflow.entities import Run

from tracking.queries.metric_histories import number

STATUSES = {"FINISHED": "finished", "FAILED": "failed", "KILLED": "stopped"}
"""Outcomes by MLflow status; a job with any other status is still running."""
RUNNING = "running"


@dataclass(frozen=True, kw_only=True, slots=True)
class TrackedJob:
    """One job with only the fields that an overview needs: an experiment may contain tens of thousands of jobs."""

    group: str | None
    """Id of its group, or None."""
    arm: str
    status: str
    """finished, failed, stopped or running."""
    started_at: datetime
    """Start of its run, UTC."""
    billable_instance_seconds: float
    """NaN without a billing record."""
    usd: float
    """NaN without a price."""
    price: str | None
    """Source and date of the price."""
    warm_pool_instance_seconds: float
    """Billed in addition to the job for instances kept ready for the next job; 0 without such instances."""
    warm_pool_usd: float
    """Cost of those instances; 0 if unknown."""


@dataclass(frozen=True, kw_only=True)
class JobCosts:
    """Outcomes and costs of a set of jobs."""

    label: str
    """Name of these jobs, such as a month."""
    finished: int
    failed: int
    stopped: int
    running: int
    billable_instance_seconds: float
    """Sum over the jobs with a billing record, whatever their outcome."""
    usd: float
    """Sum over the jobs with a price; NaN if no job has a price."""
    unbilled: int
    """Jobs that ended without a billing record."""
    unpriced: int
    """Jobs with a billing record but no price."""

    @property
    def jobs(self) -> int:
        """Number of jobs."""
        return self.finished + self.failed + self.stopped + self.running


def job_of_run(run: Run) -> TrackedJob:
    """Return the job that a run records."""
    tags = run.data.tags
    source, date = (tags.get(f"platform.price_{name}") for name in ("source", "date"))
    return TrackedJob(
        group=tags.get("platform.group"),
        arm=tags.get("platform.arm") or "unnamed",
        status=STATUSES.get(run.info.status, RUNNING),
        started_at=started_at(run),
        billable_instance_seconds=_metric(run, "cost/billable_instance_seconds"),
        usd=_metric(run, "cost/usd"),
        price=f"{source}, {date}" if source and date else source,
        warm_pool_instance_seconds=_metric(run, "cost/warm_pool_instance_seconds", default=0.0),
        warm_pool_usd=_metric(run, "cost/warm_pool_usd", default=0.0),
    )


def costs_of(label: str, jobs: Sequence[TrackedJob]) -> JobCosts:
    """Return the outcomes and costs of these jobs."""
    count = Counter(job.status for job in jobs)
    billed = [job for job in jobs if math.isfinite(job.billable_instance_seconds)]
    priced = [job.usd for job in jobs if math.isfinite(job.usd)]
    return JobCosts(
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
    """Return the start of a run, UTC."""
    return datetime.fromtimestamp((run.info.start_time or 0) / 1000, UTC)


def _metric(run: Run, name: str, default: float = math.nan) -> float:
    value = number(run.data.metrics.get(name, math.nan))
    return value if math.isfinite(value) and value >= 0 else default
