"""Requests to stop jobs, recorded in their runs: a job that waits for instances then starts no further attempt.

While a job waits, its service has nothing to stop. So the request is a tag of its run, which every launcher reads
before and after it starts an attempt. A request counts for good, also for a command that attaches later.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from mlflow.entities import Run

from tracking.groups.planned_job import IMPORTED
from tracking.queries.duplicates import has_ended
from tracking.queries.job_tables import quoted, runs_where
from tracking.recording.recorder import existing_run
from tracking.recording.warm_pools import SERVICE_NAME
from tracking.server.store import Store

STOP_REQUESTED = "platform.stop_requested"
"""Tag of a job's run: the time in UTC at which somebody asked to stop the job."""


def request_stop(store: Store, *, group: str | None = None, job_name: str | None = None) -> Sequence[str]:
    """Record the request in the open runs of a group's jobs or of one job. Return the names of their last attempts.

    Jobs that were never submitted are left out: a command that follows the group starts them. So are imported jobs,
    which trainfare does not start. `job_name` may also be the name of a further attempt.
    """
    selections = [("group", group)] if group else [("job_name", job_name), ("service_name", job_name)]
    filters = [f"tags.`platform.{tag}` = {quoted(str(value))}" for tag, value in selections]
    open_runs = [run for each in filters for run in _job_runs(store, each)]
    runs = [
        run for run in open_runs if existing_run(run).is_described and run.data.tags.get("platform.role") != IMPORTED
    ]
    for run in runs:
        store.tag(run.info.run_id, {STOP_REQUESTED: f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"})
    return [str(run.data.tags.get(SERVICE_NAME) or run.data.tags["platform.job_name"]) for run in runs]


def is_stop_requested(store: Store, run_id: str) -> bool:
    """Return whether somebody asked to stop the job of a run, or another launcher has recorded its outcome."""
    run = store.call(store.client.get_run, run_id)
    return STOP_REQUESTED in run.data.tags or has_ended(run)


def _job_runs(store: Store, selection: str) -> list[Run]:
    query = f"{selection} and tags.`platform.kind` = 'job' and attributes.status = 'RUNNING'"
    runs: list[Run] = store.call(lambda: list(runs_where(store.client, query)))
    return runs
