"""A sweep that is open: its jobs, where they run, and what keeps it."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import optuna

from experiments.planning.staged_inputs import Say
from experiments.running.service_context import Where
from experiments.sweeping.sweep_jobs import SweepJobs
from reports.charts.class_charts import PngClassCharts
from sweeps.space.grid import Point
from sweeps.study.storage import Storage, open_storage
from sweeps.study.study import open_study
from sweeps.workers.lease import hold_lease
from tracking.following.followed_job import Outcome
from tracking.following.group_session import run_jobs
from tracking.groups.group import Group, open_group
from tracking.groups.planned_job import PlannedJob
from tracking.recording.job_run import cost_so_far
from tracking.server.store import Store, open_store
from training.state.home import home

STORAGE_VARIABLE = "TRAINFARE_SWEEP_STORAGE"
"""Names the database of all workers; a password in it stays out of commands and runs."""


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A sweep in this worker's hands."""

    jobs: SweepJobs
    where: Where
    store: Store
    group: Group
    storage: Storage
    studies: Mapping[str, optuna.Study]
    """By compiler."""
    command: Sequence[str]
    """Words that train the experiment."""
    say: Say

    @property
    def name(self) -> str:
        """Under which the studies stand in the storage."""
        return self.jobs.sweep.fields.name or self.group.id

    def ready(self, compiler: str, point: Point) -> PlannedJob:
        """Return a point's job with all that it reads where it runs."""
        return self.where.made_ready(self.jobs.trial(self.group.id, compiler, point))

    def run(self, planned: Sequence[PlannedJob]) -> list[Outcome]:
        """Run what is left of some jobs that are no trials, within the budgets."""
        return run_jobs(
            self.store,
            self.where.service,
            self.group,
            [self.where.made_ready(job) for job in planned],
            parallel=self.jobs.sweep.fields.max_parallel,
            may_start=self._has_budget,
            say=self.say,
            charts=PngClassCharts(),
        )

    def _has_budget(self) -> bool:
        fields = self.jobs.sweep.fields
        if fields.max_billable_seconds is None and fields.max_usd is None:
            return True
        seconds, usd = cost_so_far(self.store, self.group)
        return seconds < (fields.max_billable_seconds or math.inf) and usd < (fields.max_usd or math.inf)


def open_sweep(jobs: SweepJobs, where: Where, key: str, command: Sequence[str], say: Say) -> Opened:
    """Open or continue a sweep.

    Raises TrainfareError for what does not answer, and InputError where a sweep of its name asks for something else;
    nothing is started and no run is opened then.
    """
    storage = open_storage(storage_url(), say=say)
    name = jobs.sweep.fields.name
    studies = _studies(storage, name, jobs) if name else {}
    description = jobs.sweep.experiment.description
    with hold_lease(storage, f"{key}/opening", say):  # workers that begin together must find one group
        store = open_store(say=say)
        group = open_group(store, experiment_name=jobs.name, verb="sweep", key=key, description=description, joins=True)
    return Opened(
        jobs=jobs,
        where=where,
        store=store,
        group=group,
        storage=storage,
        studies=studies or _studies(storage, group.id, jobs),
        command=command,
        say=say,
    )


def _studies(storage: Storage, name: str, jobs: SweepJobs) -> dict[str, optuna.Study]:
    sweep = jobs.sweep
    # The bound itself is known later: what it may be worse by stands for it.
    objective = replace(sweep.objective, bound=sweep.fields.worse_by)
    return {
        compiler: open_study(
            storage, sweep=name, compiler=compiler, space=sweep.space, objective=objective, experiment=jobs.trains
        )
        for compiler in sweep.fields.compilers
    }


def storage_url() -> str:
    """Return the address of the studies' database: `TRAINFARE_SWEEP_STORAGE`, or a file among the state."""
    if given := os.environ.get(STORAGE_VARIABLE):
        return given
    home().mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{home() / 'sweeps.db'}"
