"""Measurements before the trials: step times of every batch size with every compiler, and the baseline's quality."""

from __future__ import annotations

import math
from dataclasses import replace

from experiments.sweeping.open_sweep import OpenSweep
from sweeps.cost_model.costs import CostModel
from sweeps.cost_model.trials import Search
from sweeps.workers.calibrations import calibrated_costs
from sweeps.workers.lease import hold_lease
from tracking.recording.recorder import find_job_run
from training.contract.errors import InputError


class CalibrationIncomplete(Exception):
    """Not all batch sizes were timed: the budget is spent, or a person stopped the sweep."""


def prepare_searches(opened: OpenSweep) -> dict[str, Search]:
    """Run the calibrations and return the search of each compiler whose calibration succeeded.

    Raises `CalibrationIncomplete`, and `InputError` if no compiler is left.
    """
    planned = [job for _, job in opened.jobs.measurements(opened.group.id)]
    with hold_lease(opened.storage, f"{opened.name}/timing", opened.echo):
        if len(opened.run(planned)) < len(planned):
            raise CalibrationIncomplete
    sweep = opened.jobs.sweep
    objective = replace(sweep.objective, bound=_bound(opened))
    searches: dict[str, Search] = {}
    for compiler in sweep.fields.compilers:
        model = _costs(opened, compiler) if sweep.calibration_seconds else None
        if model or not sweep.calibration_seconds:
            searches[compiler] = Search(
                space=sweep.space, objective=objective, samples=opened.jobs.samples, base=sweep.base_point, costs=model
            )
    if not searches:
        raise InputError("the sweep cannot start, because the calibration of every compiler failed: see its jobs' logs")
    return searches


def _costs(opened: OpenSweep, compiler: str) -> CostModel | None:
    name = opened.jobs.calibration(opened.group.id, compiler).spec.name
    run = find_job_run(opened.store, opened.group, name)
    if run is None or run.failure or not run.has_ended:
        why = f" ({run.failure[0]})" if run and run.failure else ""
        opened.echo(f"Skipping {compiler}: its calibration job {name} did not complete{why}.")
        return None
    machines = opened.jobs.sweep.experiment.machine.instance_count
    try:
        return calibrated_costs(opened.store, run, instance_count=machines)
    except ValueError as error:
        opened.echo(f"Skipping {compiler}: {error}.")
        return None


def _bound(opened: OpenSweep) -> float | None:
    """Return the worst acceptable quality: the baseline's quality, worsened by `sweep.worse_by`."""
    sweep = opened.jobs.sweep
    worse_by, quality = sweep.fields.worse_by, sweep.objective.quality
    if worse_by is None or quality is None:
        return None
    name = opened.jobs.trial(opened.group.id, *sweep.baseline).spec.name
    run = find_job_run(opened.store, opened.group, name)
    value = run.metrics.get(quality.metric, math.nan) if run else math.nan
    if not math.isfinite(value):
        raise InputError(f"sweep.worse_by needs the baseline's quality, but job {name} logged no {quality.metric}")
    opened.echo(f"The baseline's {quality.metric} is {value:.4g}; a trial may be at most {worse_by:g} worse.")
    return value - worse_by if quality.higher_is_better else value + worse_by
