"""What the tracking server holds of one job, for whoever goes on with it or judges it."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from mlflow.entities import RunStatus

from tracking.groups.group import Group, child_run, child_runs
from tracking.recording.recorder import OpenRun, found_run
from tracking.server.store import Store


@dataclass(frozen=True, kw_only=True)
class JobRun:
    """A job's run."""

    opened: OpenRun
    has_ended: bool
    """Whether the job's end is recorded."""
    failure: tuple[str, str] | None
    """(class, reason) of one that ended otherwise than completed."""
    metrics: Mapping[str, float]
    """Last value of each metric."""


def find_job_run(store: Store, group: Group, job_name: str) -> JobRun | None:
    """Return the run of one of a group's jobs, or None of one that was never begun."""
    run = child_run(store, group, job_name)
    if run is None:
        return None
    status, tags = run.info.status, run.data.tags
    has_ended = RunStatus.is_terminated(RunStatus.from_string(status))
    told = tags.get("platform.failure_class", "Error"), tags.get("platform.failure_message", "")
    return JobRun(
        opened=found_run(run),
        has_ended=has_ended,
        failure=told if has_ended and status != "FINISHED" else None,
        metrics=dict(run.data.metrics),
    )


def paid_so_far(store: Store, group: Group, without: Set[str] = frozenset()) -> tuple[float, float]:
    """Return the billable instance seconds and dollars of all jobs of a group that have ended, whatever their end.

    Jobs whose names are in `without` are left out.
    """
    runs = [run for name, run in child_runs(store, group).items() if name not in without]
    return (
        sum(run.data.metrics.get("cost/billable_instance_seconds", 0.0) for run in runs),
        sum(run.data.metrics.get("cost/usd", 0.0) for run in runs),
    )
