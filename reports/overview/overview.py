"""Contents of an MLflow experiment: each command's answer and the cost of all jobs. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from mlflow.entities import Run

from reports.overview.costs import RUNNING, STATUSES, JobCosts, TrackedJob, costs_of, job_of_run, started_at
from tracking.queries.job_tables import job_key

Key = TypeVar("Key")


@dataclass(frozen=True, kw_only=True)
class TrackedGroup:
    """The jobs of one command."""

    id: str | None
    """None for jobs without a group."""
    run_id: str | None
    """The group's parent run, or None if it was deleted."""
    experiment_id: str
    started_at: datetime
    """Start of the group's first run, UTC."""
    verb: str
    """train, compare, probe or sweep; empty if the parent run does not record it."""
    experiment: str
    """Name of the experiment file; empty if the parent run does not record it."""
    headline: str | None
    """Answer of the group's latest report; None if no report was made."""
    arms: tuple[str, ...]
    """Labels of the arms, in the order in which they started."""
    costs: JobCosts


@dataclass(frozen=True, kw_only=True)
class Overview:
    """An MLflow experiment."""

    name: str
    experiment_id: str
    groups: tuple[TrackedGroup, ...]
    """Newest first."""
    total: JobCosts
    months: tuple[JobCosts, ...]
    """By the month in which a job's run started (UTC), newest first; labels such as 2026-11."""
    statuses: tuple[JobCosts, ...]
    """By outcome, without outcomes that no job has."""
    prices: tuple[str, ...]
    """Source and date of every price that the dollars are based on."""
    warm_pool_instance_seconds: float
    """Billed in addition to the jobs for instances kept ready for the next job."""
    warm_pool_usd: float

    @property
    def wasted(self) -> JobCosts | None:
        """Costs of failed jobs, excluding jobs that a person or a sweep stopped."""
        return next((costs for costs in self.statuses if costs.label == "failed"), None)


def overview_of(runs: Iterable[Run], name: str, experiment_id: str) -> Overview:
    """Return the overview of an experiment's runs, which must be ordered by age, oldest first.

    Runs that are neither jobs nor groups are ignored, and so are further runs of the same job.
    """
    jobs: list[TrackedJob] = []
    seen: set[tuple[str, str] | None] = set()
    parents: dict[str | None, list[Run]] = {}
    for run in runs:
        kind, group = run.data.tags.get("platform.kind"), run.data.tags.get("platform.group")
        if kind == "job" and ((key := job_key(run)) is None or key not in seen):
            jobs.append(job_of_run(run))
            seen.add(key)
        elif kind == "group" and group:
            parents.setdefault(group, []).append(run)
    members = {**{group: list[TrackedJob]() for group in parents}, **_group_by(jobs, lambda job: job.group)}
    groups = [_group(group, experiment_id, parents.get(group, []), own) for group, own in members.items()]
    months, statuses = _group_by(jobs, _month), _group_by(jobs, lambda job: job.status)
    return Overview(
        name=name,
        experiment_id=experiment_id,
        groups=tuple(sorted(groups, key=lambda group: group.started_at, reverse=True)),
        total=costs_of("all", jobs),
        months=tuple(costs_of(month, months[month]) for month in sorted(months, reverse=True)),
        statuses=tuple(costs_of(each, statuses[each]) for each in (*STATUSES.values(), RUNNING) if each in statuses),
        prices=tuple(sorted({job.price for job in jobs if job.price})),
        warm_pool_instance_seconds=math.fsum(job.warm_pool_instance_seconds for job in jobs),
        warm_pool_usd=math.fsum(job.warm_pool_usd for job in jobs),
    )


def _group(id: str | None, experiment_id: str, parents: Sequence[Run], jobs: Sequence[TrackedJob]) -> TrackedGroup:
    # If a launcher died and a second one resumed its group, the second launcher's run is the parent.
    current = [run for run in parents if run.data.tags.get("platform.group_state") != "continued"]
    parent = (current or parents)[-1] if parents else None
    tags = parent.data.tags if parent else {}
    return TrackedGroup(
        id=id,
        run_id=parent.info.run_id if parent else None,
        experiment_id=experiment_id,
        started_at=min([*map(started_at, parents), *(job.started_at for job in jobs)]),
        verb=tags.get("platform.verb", ""),
        experiment=tags.get("platform.experiment", ""),
        headline=tags.get("platform.headline"),
        arms=tuple(dict.fromkeys(job.arm for job in jobs)),
        costs=costs_of(id or "", jobs),
    )


def _group_by(jobs: Iterable[TrackedJob], key: Callable[[TrackedJob], Key]) -> dict[Key, list[TrackedJob]]:
    groups: dict[Key, list[TrackedJob]] = {}
    for job in jobs:
        groups.setdefault(key(job), []).append(job)
    return groups


def _month(job: TrackedJob) -> str:
    return f"{job.started_at:%Y-%m}"
