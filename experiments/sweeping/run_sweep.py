"""Run a sweep: calibrate the batch sizes, search batch sizes and learning rates, and repeat the winner.

Every process that runs the same command on the same storage is a worker of the same sweep. One worker runs the
calibrations and the repeats; the others wait for it and use the results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import cast

from experiments.planning.arms import Arm
from experiments.planning.budgets import budget_of, check_budget, why_no_price
from experiments.planning.inputs import Inputs
from experiments.planning.load import load
from experiments.running.launch import Preparation, Prepared
from experiments.running.options import read_fail_on
from experiments.running.output import print_line
from experiments.running.service_context import priced
from experiments.schema.compare_fields import with_full_names
from experiments.schema.overrides import is_field
from experiments.sweeping.sweep_plan import SweepJobs, SweepPlan, label, most_jobs, plan_sweep
from sweeps.space.grid import Point
from tracking.groups.planned_job import PlannedJob
from training.contract.errors import InputError
from training.staging.tokens.staged import Staged


@dataclass(frozen=True, kw_only=True)
class PreparedSweep(Prepared):
    """Sweep whose jobs are checked and not started."""

    sweep: SweepPlan

    @property
    def jobs(self) -> SweepJobs:
        """Jobs of the sweep, whose data is not refused."""
        [(_, staged)] = self.arm_inputs
        return SweepJobs(self.name, self.sweep, cast(Staged, staged))

    @property
    def key(self) -> str:
        """Key of the sweep's group."""
        return self.jobs.key

    def known_jobs(self, group_id: str) -> list[tuple[Arm, Inputs, PlannedJob]]:
        """Return the jobs that are known before the search, with their arms: measurements and first trials."""
        sweep, jobs = self.sweep, self.jobs
        known = jobs.measurements(group_id)
        for compiler in sweep.fields.compilers:
            is_baseline = sweep.fields.worse_by is not None and compiler == sweep.baseline[0]
            if sweep.base_point in sweep.space.points and not is_baseline:  # the baseline is this trial
                trial = sweep.trial(compiler, sweep.base_point, jobs.staged.train_rows)
                known.append((trial, jobs.trial(group_id, compiler, sweep.base_point)))
        return [(arm, jobs.staged, job) for arm, job in known]


def sweep(overrides: Mapping[str, str]) -> int:
    """Run or resume a sweep with overrides of the experiment's fields. Return the exit code, see `sweep_worker.run`."""
    prepared = prepare_sweep(overrides, Preparation())
    assert prepared  # an error has ended the command
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

    Every check is made before a run is opened or anything is uploaded.
    """
    request = steps.attempt(partial(_read, overrides))
    prepared = request and steps.with_inputs(request)
    if prepared is None or not prepared.is_complete or (context := prepared.context) is None:
        return prepared
    jobs, sweep = prepared.jobs, prepared.sweep
    steps.attempt(partial(jobs.check, context))
    sample = steps.attempt(partial(priced, context, jobs.trial("check", *sweep.baseline)))
    if sample is None:
        return prepared
    steps.attempt(partial(_check_price, sweep, sample))
    sentences = steps.attempt(
        lambda: check_budget([sample], budget_of(sweep.experiment, is_sweep=True), at_most=most_jobs(sweep))
    )
    return replace(prepared, budget_text=sentences or ())


def full_names(overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the overrides of fields of the experiment, with their full names. Raises InputError."""
    return with_full_names(
        {name: text for name, text in overrides.items() if name not in ("experiment", "fail-on")}, is_field
    )


def _read(overrides: Mapping[str, str]) -> PreparedSweep:
    fail_on = read_fail_on(overrides)  # no field of the experiment: it changes no job
    name = overrides.get("experiment", "demo")
    sweep = plan_sweep(load(name, full_names(overrides)))
    # Data that is smaller than the largest batch is refused.
    largest = sweep.trial(sweep.fields.compilers[0], Point(sweep.space.batch_sizes[-1]), 1)
    return PreparedSweep(
        verb="sweep",
        name=Path(name).stem,
        experiment=sweep.experiment,
        arms=(replace(largest, label=label(*sweep.baseline)),),
        parallel=sweep.fields.max_parallel,
        design=sweep.design,
        fail_on=fail_on,
        sweep=sweep,
    )


def _check_price(sweep: SweepPlan, sample: PlannedJob) -> None:
    """Raise InputError if an objective in dollars needs a price that is unknown."""
    if "usd" in sweep.fields.objective and sample.price is None:
        raise InputError(f"sweep.objective contains usd, but {why_no_price(sample.spec.instance_type)}")
