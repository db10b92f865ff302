"""Run a sweep: calibrate the batch sizes, search batch sizes and learning rates, and repeat the winner.

Every process that runs the same command on the same storage is a worker of the same sweep. One worker runs the
calibrations and the repeats; the others wait for it and use the results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from experiments.planning.arms import Arm
from experiments.planning.budgets import budget_of, check_budget, why_no_price
from experiments.planning.inputs import Inputs
from experiments.planning.load import load
from experiments.running.fail_on import read_fail_on
from experiments.running.output import print_line
from experiments.running.preparation import Preparation, Start
from experiments.running.service_context import ServiceContext
from experiments.schema.experiment import Experiment
from experiments.schema.overrides import is_field
from experiments.schema.sweep_fields import with_full_names
from experiments.sweeping.sweep_jobs import SweepJobs
from experiments.sweeping.sweep_plan import SweepPlan, most_jobs, plan_sweep
from judging.design import Design
from sweeps.space.grid import Point
from tracking.groups.planned_job import PlannedJob
from training.contract.errors import InputError
from training.staging.tokens.staged import Staged


@dataclass(frozen=True, kw_only=True)
class PreparedSweep:
    """Sweep whose jobs are checked and not started."""

    name: str
    """Name of the experiment."""
    sweep: SweepPlan
    jobs: SweepJobs | None
    """None if the data is refused."""
    context: ServiceContext | None
    """Service of the jobs; None if it is refused."""
    budget_text: Sequence[str]
    """Sentences about the budget; empty without one."""
    fail_on: frozenset[str]
    """Results of the winner for which the command fails."""

    @property
    def experiment(self) -> Experiment:
        """Experiment of the sweep."""
        return self.sweep.experiment

    @property
    def design(self) -> Design | None:
        """Looks at the repeats."""
        return self.sweep.design

    @property
    def parallel(self) -> int:
        """Jobs to run at the same time."""
        return self.sweep.fields.max_parallel

    @property
    def staged(self) -> list[Inputs]:
        """Data of all jobs; empty if it is refused."""
        return [self.jobs.staged] if self.jobs else []

    @property
    def is_complete(self) -> bool:
        """True if the data is known."""
        return self.jobs is not None

    @property
    def key(self) -> str:
        """Key of the sweep."""
        assert self.jobs is not None
        return self.jobs.key

    @property
    def arm_inputs(self) -> list[tuple[Arm, Inputs]]:
        """The baseline with the data of all jobs."""
        return [(self.sweep.trial(*self.sweep.baseline, 1), inputs) for inputs in self.staged]

    def known_jobs(self, group_id: str) -> list[tuple[Arm, Inputs, PlannedJob]]:
        """Return the jobs that are known before the search, with their arms: measurements and first trials."""
        assert self.jobs is not None
        sweep, staged = self.sweep, self.jobs.staged
        known = self.jobs.measurements(group_id)
        for compiler in sweep.fields.compilers:
            is_baseline = sweep.fields.worse_by is not None and compiler == sweep.baseline[0]
            if sweep.base_point in sweep.space.points and not is_baseline:  # the baseline is this trial
                trial = sweep.trial(compiler, sweep.base_point, staged.train_rows)
                known.append((trial, self.jobs.trial(group_id, compiler, sweep.base_point)))
        return [(arm, staged, job) for arm, job in known]


def sweep(overrides: Mapping[str, str]) -> int:
    """Run or resume a sweep with overrides of the experiment's fields. Return the exit code, see `sweep_worker.run`."""
    prepared = prepare_sweep(overrides, Start())
    assert prepared  # an error has ended the command
    assert prepared.jobs
    assert prepared.context
    for sentence in prepared.budget_text:
        print_line(sentence)
    from experiments.sweeping.open_sweep import open_sweep
    from experiments.sweeping.sweep_worker import run

    own = {name: text for name, text in full_names(overrides).items() if not name.startswith("sweep.")}
    own = {"experiment": overrides.get("experiment", "demo"), **own}
    return run(open_sweep(prepared.jobs, prepared.context, own, print_line), prepared.fail_on)


def prepare_sweep(overrides: Mapping[str, str], steps: Preparation) -> PreparedSweep | None:
    """Return the checked sweep, or None if its fields are refused.

    Every check is made before a run is opened or anything is uploaded. Data comes first: an error in it leaves nothing
    behind.
    """
    read = steps.attempt(partial(_read, overrides))
    if read is None:
        return None
    sweep, fail_on = read
    name = Path(overrides.get("experiment", "demo")).stem
    largest = sweep.trial(sweep.fields.compilers[0], Point(sweep.space.batch_sizes[-1]), 1)
    [staged] = steps.stage([largest])  # refuses data that is smaller than the largest batch
    jobs = SweepJobs(name, sweep, staged) if isinstance(staged, Staged) else None
    context = steps.attempt(partial(steps.open_context, sweep.experiment))
    sentences = None
    if jobs and context:
        steps.attempt(partial(jobs.check, context))
        if sample := steps.attempt(partial(context.priced, jobs.trial("check", *sweep.baseline))):
            steps.attempt(partial(_check_price, sweep, sample))
            sentences = steps.attempt(
                lambda: check_budget([sample], budget_of(sweep.experiment, is_sweep=True), at_most=most_jobs(sweep))
            )
    return PreparedSweep(
        name=name, sweep=sweep, jobs=jobs, context=context, budget_text=sentences or (), fail_on=fail_on
    )


def full_names(overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the overrides of fields of the experiment, with their full names. Raises InputError."""
    return with_full_names(
        {name: text for name, text in overrides.items() if name not in ("experiment", "fail-on")}, is_field
    )


def _read(overrides: Mapping[str, str]) -> tuple[SweepPlan, frozenset[str]]:
    fail_on = read_fail_on(overrides.get("fail-on", ""))  # no field of the experiment: it changes no job
    return plan_sweep(load(overrides.get("experiment", "demo"), full_names(overrides))), fail_on


def _check_price(sweep: SweepPlan, sample: PlannedJob) -> None:
    """Raise InputError if an objective in dollars needs a price that is unknown."""
    if "usd" in sweep.fields.objective and sample.price is None:
        raise InputError(f"sweep.objective contains usd, but {why_no_price(sample.spec.instance_type)}")
