"""An open sweep: its jobs, their service, its storage and its studies."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import optuna

from experiments.planning.budgets import budget_of
from experiments.planning.inputs import Echo
from experiments.running.scheduler import run_jobs
from experiments.running.service_context import prepare
from experiments.sweeping.sweep_plan import SweepJobs
from reports.charts.class_charts import PngClassCharts
from state.home import home
from sweeps.space.grid import Point
from sweeps.study.storage import Storage, hold_lease, open_storage, sqlite_url
from sweeps.study.study import open_study
from tracking.budgets.ledger import Ledger, set_budget
from tracking.groups.group import Group, open_group
from tracking.groups.planned_job import PlannedJob
from tracking.recording.recorder import JobRun, Outcome, find_job_run
from tracking.server.store import Store, open_store
from training.contract.service import ServiceContext

STORAGE_VARIABLE = "TRAINFARE_SWEEP_STORAGE"
"""Variable with the address of the workers' database. A variable keeps its password out of commands and runs."""


@dataclass(frozen=True, kw_only=True)
class OpenSweep:
    """A sweep in the process of one worker."""

    jobs: SweepJobs
    context: ServiceContext
    store: Store
    group: Group
    storage: Storage
    studies: Mapping[str, optuna.Study]
    """Studies by compiler."""
    overrides: Mapping[str, str]
    """The experiment and the overrides of the command that also apply to a training."""
    echo: Echo

    @property
    def name(self) -> str:
        """Name of the studies in the storage."""
        return self.jobs.sweep.fields.name or self.group.id

    def prepared_trial(self, compiler: str, point: Point) -> PlannedJob:
        """Return the job of a point, with its inputs uploaded."""
        return prepare(self.context, self.jobs.trial(self.group.id, compiler, point))

    def run(self, planned: Sequence[PlannedJob]) -> list[Outcome]:
        """Run the jobs that have not run yet, within the budgets. Used for all jobs except trials."""
        return run_jobs(
            self.store,
            self.context.service,
            self.group,
            [prepare(self.context, job) for job in planned],
            parallel=self.jobs.sweep.fields.max_parallel,
            echo=self.echo,
            charts=PngClassCharts(),
        )

    def find_run(self, planned: PlannedJob) -> JobRun | None:
        """Return the run of a job, or None if it was not opened."""
        return find_job_run(self.store, self.group, planned.spec.name)

    @property
    def ledger(self) -> Ledger:
        """Budget of the sweep."""
        return Ledger(self.store, self.context.service, self.group)


def open_sweep(jobs: SweepJobs, context: ServiceContext, overrides: Mapping[str, str], echo: Echo) -> OpenSweep:
    """Open or resume a sweep.

    Raises TrainfareError if the storage or the tracking server does not answer, and InputError if a different sweep
    has the same name. In these cases no job is started and no run is opened.
    """
    storage = open_storage(storage_url(), echo=echo)
    name = jobs.sweep.fields.name
    studies = _studies(storage, name, jobs) if name else {}
    experiment, key = jobs.sweep.experiment, jobs.key
    with hold_lease(storage, f"{key}/opening", echo):  # workers that start together must share one group
        store = open_store(echo=echo)
        group = open_group(
            store,
            experiment_name=jobs.name,
            verb="sweep",
            key=key,
            description=experiment.description,
            joins=True,
            prefix=experiment.aws.job_prefix or "",
        )
        set_budget(store, group, budget_of(experiment, is_sweep=True))
    return OpenSweep(
        jobs=jobs,
        context=context,
        store=store,
        group=group,
        storage=storage,
        studies=studies or _studies(storage, group.id, jobs),
        overrides=overrides,
        echo=echo,
    )


def _studies(storage: Storage, name: str, jobs: SweepJobs) -> dict[str, optuna.Study]:
    sweep = jobs.sweep
    # The bound is known only after the baseline has run. Until then `worse_by` takes its place.
    objective = replace(sweep.objective, bound=sweep.fields.worse_by)
    return {
        compiler: open_study(
            storage, sweep=name, compiler=compiler, space=sweep.space, objective=objective, experiment=jobs.training_key
        )
        for compiler in sweep.fields.compilers
    }


def storage_url() -> str:
    """Return the address of the studies' database: `TRAINFARE_SWEEP_STORAGE`, or a file in the state folder."""
    if url := os.environ.get(STORAGE_VARIABLE):
        return url
    home().mkdir(parents=True, exist_ok=True)
    return sqlite_url(home() / "sweeps.db")
