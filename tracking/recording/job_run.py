"""State of one job's run on the tracking server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mlflow.entities import RunStatus

from judging.doomed import Death
from tracking.groups.group import Group, child_run
from tracking.recording.deaths import recorded_death
from tracking.recording.recorder import OpenRun, existing_run
from tracking.server.store import Store


@dataclass(frozen=True, kw_only=True)
class JobRun:
    """Run of a job."""

    opened: OpenRun
    has_ended: bool
    """True if the job's outcome is recorded."""
    failure: tuple[str, str] | None
    """(class, reason) of a job that ended without completing."""
    death: Death | None
    """Exception of which the job died."""
    metrics: Mapping[str, float]
    """Last value of each metric."""


def find_job_run(store: Store, group: Group, job_name: str) -> JobRun | None:
    """Return the run of one of a group's jobs, or None if the job was never started."""
    run = child_run(store, group, job_name)
    if run is None:
        return None
    status, tags = run.info.status, run.data.tags
    has_ended = RunStatus.is_terminated(RunStatus.from_string(status))
    failure = tags.get("platform.failure_class", "Error"), tags.get("platform.failure_message", "")
    return JobRun(
        opened=existing_run(run),
        has_ended=has_ended,
        failure=failure if has_ended and status != "FINISHED" else None,
        death=recorded_death(tags),
        metrics=dict(run.data.metrics),
    )
