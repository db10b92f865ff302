"""Search of a sweep, in words."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.planning.command_plan import SearchPlan
from reports.model.blocks import Definition
from reports.model.numbers import figure
from reports.model.wording import counted, joined


def search_definitions(search: SearchPlan) -> Iterator[Definition]:
    """Yield the objective, the space, and the order of the jobs."""
    yield Definition("Objective", search.objective)
    yield Definition("Space", _space(search))
    yield Definition("Order", "\n".join(_phases(search)))


def _space(search: SearchPlan) -> str:
    sizes = ", ".join(map(str, search.batch_sizes))
    rates = "" if len(search.multipliers) == 1 else f"; rate x {', '.join(f'{each:g}' for each in search.multipliers)}"
    points = len(search.batch_sizes) * len(search.multipliers)
    return f"batch {sizes}{rates}: {counted(points, 'point')} for each of {joined(list(search.compilers))}"


def _phases(search: SearchPlan) -> Iterator[str]:
    if search.calibration_seconds:
        yield f"calibration of each compiler: {figure(search.calibration_seconds)} s for each batch size"
    first = f", first {joined(list(search.first_points))}" if search.first_points else ""
    yield f"at most {counted(search.trials, 'trial')} of each compiler{first}; sampler {search.sampler}"
    if search.finalists:
        yield f"a second training of at most {search.finalists} settings of each compiler"
    if search.repeats:
        yield f"at most {counted(search.repeats, 'repeat')} of the winner and of each control"
