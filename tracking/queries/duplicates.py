"""Choose the one run that counts among the runs of the same job.

MLflow accepts any number of runs with equal tags, and earlier versions opened one for each launcher that followed a
job. All readers choose with the same rule, so that no job counts twice.
"""

from __future__ import annotations

from collections.abc import Iterable

from mlflow.entities import Run, RunStatus


def counted_run(runs: Iterable[Run]) -> Run:
    """Return the run that counts among runs of the same job: an ended one if there is one, and then the oldest.

    Raises ValueError without runs.
    """
    return min(runs, key=_order)


def without_duplicates(runs: Iterable[Run]) -> list[Run]:
    """Return the runs without duplicates of jobs, in the same order. Runs that are not of a job are kept."""
    listed = list(runs)
    by_job: dict[tuple[str, str], list[Run]] = {}
    for run in listed:
        if key := job_key(run):
            by_job.setdefault(key, []).append(run)
    counted = {counted_run(same).info.run_id for same in by_job.values()}
    return [run for run in listed if job_key(run) is None or run.info.run_id in counted]


def job_key(run: Run) -> tuple[str, str] | None:
    """Return the group's id and the name of the run's job, or None if the run is not of a job."""
    tags = run.data.tags
    name = tags.get("platform.job_name")
    return (tags.get("platform.group", ""), name) if name else None


def has_ended(run: Run) -> bool:
    """Return whether the run's outcome is recorded."""
    return bool(RunStatus.is_terminated(RunStatus.from_string(run.info.status)))


def _order(run: Run) -> tuple[bool, int, str]:
    return not has_ended(run), run.info.start_time or 0, run.info.run_id
