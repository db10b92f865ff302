"""Expected time of the jobs of a group, from earlier jobs on the tracking server."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from experiments.planning.expected_cost import expected_cost
from reports.comparison.arms import Job, job_of
from tracking.following.group_progress import ExpectedSeconds
from tracking.groups.group import Group
from tracking.groups.planned_job import PlannedJob
from tracking.queries.job_tables import ended_jobs
from tracking.server.store import Store
from training.contract.errors import TrackingError


def earlier_jobs(store: Store, experiment_id: str, jobs: Sequence[PlannedJob], but: str | None = None) -> list[Job]:
    """Return the successful jobs of an experiment on the machines of planned jobs, without those of the group `but`."""
    table = ended_jobs(store.client, experiment_id, {job.spec.instance_type for job in jobs})
    return [job_of(row) for row in table.to_dict("records") if but is None or row.get("group") != but]


def expected_seconds(store: Store, group: Group, jobs: Sequence[PlannedJob]) -> ExpectedSeconds:
    """Return a function from a job to its expected billable instance seconds, or None if they are unknown.

    The earlier jobs are read once, when the first job is asked about. A server that does not answer then does not
    disturb the jobs that are followed.
    """

    @cache
    def earlier() -> list[Job]:
        try:
            return earlier_jobs(store, group.experiment_id, jobs, but=group.id)
        except TrackingError:
            return []

    known: dict[tuple[str, bool], float | None] = {}

    def seconds(job: PlannedJob) -> float | None:
        # Repeats of an arm differ only in their seed.
        key = job.arm, job.is_again
        if key not in known:
            cost = expected_cost(job, None, earlier())
            known[key] = cost.seconds if cost else None
        return known[key]

    return seconds
