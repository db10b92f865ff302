"""Search of a sweep: its space, its objective and the largest number of its jobs, as a plan and in words. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.planning.command_plan import SearchPlan
from experiments.sweeping.sweep_plan import SweepPlan, label, most_jobs
from reports.model.numbers import counted, figure, joined
from reports.model.report import Definition
from sweeps.cost_model.trials import Search
from sweeps.study.sampler import automatic, first_points

FIRST_POINTS = 3
"""Points that a plan shows."""


def search_plan(sweep: SweepPlan) -> SearchPlan:
    """Return the search of a sweep."""
    fields, space, objective = sweep.fields, sweep.space, sweep.objective
    has_finalists = not objective.is_front and objective.quality is not None and fields.finalists > 1
    search = Search(space=space, objective=objective, samples=0, base=sweep.base_point, costs=None)
    first = [] if sweep.calibration_seconds else first_points(fields.sampler, search, FIRST_POINTS)
    return SearchPlan(
        compilers=fields.compilers,
        batch_sizes=space.batch_sizes,
        multipliers=space.multipliers,
        objective=_objective(sweep),
        sampler=automatic(search) if fields.sampler == "auto" else fields.sampler,
        first_points=tuple(label("", point).removeprefix(", ") for point in first),
        trials=min(fields.trials, len(space.points)),
        calibration_seconds=sweep.calibration_seconds,
        finalists=fields.finalists if has_finalists else 0,
        repeats=0 if objective.is_front else sweep.repeats,
        max_parallel=fields.max_parallel,
        max_jobs=most_jobs(sweep),
    )


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


def search_definitions(search: SearchPlan) -> Iterator[Definition]:
    """Yield the objective, the space, and the order of the jobs."""
    yield Definition("Objective", search.objective)
    sizes = ", ".join(map(str, search.batch_sizes))
    rates = "" if len(search.multipliers) == 1 else f"; rate x {', '.join(f'{each:g}' for each in search.multipliers)}"
    points = counted(len(search.batch_sizes) * len(search.multipliers), "point")
    yield Definition("Space", f"batch {sizes}{rates}: {points} for each of {joined(search.compilers)}")
    yield Definition("Order", "\n".join(_phases(search)))


def _phases(search: SearchPlan) -> Iterator[str]:
    if search.calibration_seconds:
        yield f"calibration of each compiler: {figure(search.calibration_seconds)} s for each batch size"
    first = f", first {joined(search.first_points)}" if search.first_points else ""
    yield f"at most {counted(search.trials, 'trial')} of each compiler{first}; sampler {search.sampler}"
    if search.finalists:
        yield f"a second training of at most {search.finalists} settings of each compiler"
    if search.repeats:
        yield f"at most {counted(search.repeats, 'repeat')} of the winner and of each control"
