"""Everything that an MLflow experiment holds: what each command answered, and what all its jobs cost. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from mlflow.entities import Run

from reports.overview.costs import RUNNING, STATUSES, Bill, TrackedJob, bill_of, job_of_run, started_at

Key = TypeVar("Key")


@dataclass(frozen=True, kw_only=True)
class TrackedGroup:
    """What one command trained."""

    id: str | None
    """None for the jobs that belong to no group."""
    run_id: str | None
    """Its parent run, or None where that is deleted."""
    experiment_id: str
    started_at: datetime
    """When it was first begun, UTC."""
    verb: str
    """train, compare, probe or sweep; empty where the parent run does not tell."""
    experiment: str
    """Name of the experiment file; empty where the parent run does not tell."""
    headline: str | None
    """The answer, as its latest report told it; None where no report was made."""
    arms: tuple[str, ...]
    """Labels of its arms, as they were started."""
    bill: Bill


@dataclass(frozen=True, kw_only=True)
class Overview:
    """An MLflow experiment."""

    name: str
    experiment_id: str
    groups: tuple[TrackedGroup, ...]
    """The newest first."""
    total: Bill
    months: tuple[Bill, ...]
    """By the month in which a job's run began (UTC), the newest first; labels such as 2026-11."""
    statuses: tuple[Bill, ...]
    """By how the jobs ended, those that there are."""
    prices: tuple[str, ...]
    """Source and date of every price that the dollars were counted with."""
    kept_instance_seconds: float
    """Billed beside the jobs for machines that stayed for a next one."""
    kept_usd: float

    @property
    def wasted(self) -> Bill | None:
        """What was paid for jobs that failed; those that somebody or a sweep stopped are not among them."""
        return next((bill for bill in self.statuses if bill.label == "failed"), None)


def overview_of(runs: Iterable[Run], name: str, experiment_id: str) -> Overview:
    """Return the overview of an experiment's runs, oldest first and each looked at once.

    Runs of neither a job nor a group are left out.
    """
    jobs: list[TrackedJob] = []
    parents: dict[str | None, list[Run]] = {}
    for run in runs:
        kind, group = run.data.tags.get("platform.kind"), run.data.tags.get("platform.group")
        if kind == "job":
            jobs.append(job_of_run(run))
        elif kind == "group" and group:
            parents.setdefault(group, []).append(run)
    members = {**{group: list[TrackedJob]() for group in parents}, **_by(jobs, lambda job: job.group)}
    groups = [_group(group, experiment_id, parents.get(group, []), found) for group, found in members.items()]
    months, statuses = _by(jobs, _month), _by(jobs, lambda job: job.status)
    return Overview(
        name=name,
        experiment_id=experiment_id,
        groups=tuple(sorted(groups, key=lambda group: group.started_at, reverse=True)),
        total=bill_of("all", jobs),
        months=tuple(bill_of(month, months[month]) for month in sorted(months, reverse=True)),
        statuses=tuple(bill_of(each, statuses[each]) for each in (*STATUSES.values(), RUNNING) if each in statuses),
        prices=tuple(sorted({job.price for job in jobs if job.price})),
        kept_instance_seconds=math.fsum(job.kept_instance_seconds for job in jobs),
        kept_usd=math.fsum(job.kept_usd for job in jobs),
    )


def _group(id: str | None, experiment_id: str, parents: Sequence[Run], jobs: Sequence[TrackedJob]) -> TrackedGroup:
    # Of a launcher that died and the one that went on, the one that has the group now.
    kept = [run for run in parents if run.data.tags.get("platform.group_state") != "continued"]
    parent = (kept or parents)[-1] if parents else None
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
        bill=bill_of(id or "", jobs),
    )


def _by(jobs: Iterable[TrackedJob], key: Callable[[TrackedJob], Key]) -> dict[Key, list[TrackedJob]]:
    found: dict[Key, list[TrackedJob]] = {}
    for job in jobs:
        found.setdefault(key(job), []).append(job)
    return found


def _month(job: TrackedJob) -> str:
    return f"{job.started_at:%Y-%m}"
