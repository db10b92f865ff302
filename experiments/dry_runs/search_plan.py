"""Search of a sweep: its space, its objective, and the largest number of its jobs. Pure."""

from __future__ import annotations

from experiments.planning.command_plan import SearchPlan
from experiments.sweeping.sweep_plan import SweepPlan, label, most_jobs
from sweeps.cost_model.trials import Search
from sweeps.space.grid import Point
from sweeps.study.sampler import automatic, first_points

FIRST_POINTS = 3
"""Points that a plan shows."""


def search_plan(sweep: SweepPlan) -> SearchPlan:
    """Return the search of a sweep."""
    fields, space = sweep.fields, sweep.space
    has_winner = not sweep.objective.is_front
    has_finalists = has_winner and sweep.objective.quality is not None
    finalists = fields.finalists if has_finalists and fields.finalists > 1 else 0
    repeats = sweep.repeats if has_winner else 0
    search = Search(space=space, objective=sweep.objective, samples=0, base=sweep.base_point, costs=None)
    first = first_points(fields.sampler, search, FIRST_POINTS)
    return SearchPlan(
        compilers=fields.compilers,
        batch_sizes=space.batch_sizes,
        multipliers=space.multipliers,
        objective=_objective(sweep),
        sampler=automatic(search) if fields.sampler == "auto" else fields.sampler,
        first_points=() if sweep.calibration_seconds else tuple(map(_label, first)),
        trials=min(fields.trials, len(space.points)),
        calibration_seconds=sweep.calibration_seconds,
        finalists=finalists,
        repeats=repeats,
        max_parallel=fields.max_parallel,
        max_jobs=most_jobs(sweep),
    )


def _label(point: Point) -> str:
    return label("", point).removeprefix(", ")


def _objective(sweep: SweepPlan) -> str:
    objective, fields = sweep.objective, sweep.fields
    quality = objective.quality
    if objective.is_front and quality:
        return f"front of {objective.cost} and {quality.metric}"
    if objective.target is not None and quality:
        return f"least {objective.cost} until {quality.metric} is {objective.target:g}"
    if quality and fields.worse_by is not None:
        return f"least {objective.cost} with {quality.metric} at most {fields.worse_by:g} worse than the baseline's"
    return f"{'largest' if sweep.maximises else 'least'} {objective.cost}"
