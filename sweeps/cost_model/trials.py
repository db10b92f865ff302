"""What is searched, and what is known of it so far: the trials of a study as plain values. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sweeps.cost_model.costs import CostModel
from sweeps.space.grid import Point, Space
from sweeps.space.objective import CurvePoint, Ended, Objective, cost_of, excess, values_of

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

State = Literal["running", "complete", "pruned", "failed"]

OUT_OF_MEMORY = "OutOfMemory"


@dataclass(frozen=True, kw_only=True)
class Search:
    """One study's question."""

    space: Space
    objective: Objective
    samples: int
    """Of a whole training: what a job sees that does not end before."""
    base: Point
    """The experiment's own batch size, with the scaling rule's learning rate."""
    costs: CostModel | None = None
    """What the calibration tells; None without one."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """What is known of one trial."""

    point: Point
    state: State
    curve: tuple[CurvePoint, ...] = ()
    """In the order of their samples."""
    ended: Ended | None = None
    """None while it runs."""

    @property
    def failure_class(self) -> str | None:
        """Class of the job's failure; None of one that has none."""
        return self.ended.failure[0] if self.ended and self.ended.failure else None


def records(trials: Iterable[FrozenTrial], space: Space, known: dict[int, Record] | None = None) -> tuple[Record, ...]:
    """Return what is known of the trials, one record a point; those that have no point yet are left out.

    Of several trials at one point (its worker died and another one repeats it) the first that has not failed counts.
    `known` keeps those that have ended, by number, so that they are read once.
    """
    found: dict[Point, Record] = {}
    for trial in trials:
        record = known.get(trial.number) if known else None
        record = record or record_of(trial, space)
        if record is None:
            continue
        if record.point not in found or found[record.point].state == "failed":
            found[record.point] = record
        if known is not None and record.ended is not None:
            known[trial.number] = record
    return tuple(found.values())


def record_of(trial: FrozenTrial, space: Space) -> Record | None:
    """Return what an Optuna trial tells by its parameters, user attributes and intermediate values."""
    point = point_of(trial, space)
    if point is None:
        return None
    state = _STATES[trial.state.name]
    return Record(
        point=point,
        state=state,
        curve=_curve(trial.intermediate_values, json.loads(trial.user_attrs.get("seconds", "{}"))),
        ended=None if state == "running" else _ended(trial.user_attrs, state),
    )


_STATES: dict[str, State] = {
    "RUNNING": "running",
    "WAITING": "running",
    "COMPLETE": "complete",
    "PRUNED": "pruned",
    "FAIL": "failed",
}
"""By Optuna's names. One that waits has its point, and whoever takes it up goes on with its job."""


def point_of(trial: FrozenTrial, space: Space) -> Point | None:
    """Return a trial's point; None of one that has not got all its parameters."""
    attrs: Mapping[str, Any] = trial.user_attrs
    if "batch_size" in attrs and "multiplier" in attrs:
        return Point(int(attrs["batch_size"]), float(attrs["multiplier"]))
    params = {**trial.params, **trial.system_attrs.get("fixed_params", {})}
    return space.point(params) if space.params(space.points[0]).keys() <= params.keys() else None


def _curve(values: Mapping[int, float], seconds: Mapping[str, float]) -> tuple[CurvePoint, ...]:
    return tuple(
        CurvePoint(samples=samples, value=value, billable_instance_seconds=float(seconds[str(samples)]))
        for samples, value in sorted(values.items())
        if str(samples) in seconds
    )


def _ended(attrs: Mapping[str, Any], state: State) -> Ended:
    end = str(attrs.get("end", ""))
    kind, _, why = end.partition(": ")
    failure = None
    if kind == "pruned":
        failure = ("Stopped", why)
    elif kind == "failed" or state == "failed":
        failure = (why.split(":")[0] or "Error", why)
    return Ended(
        failure=failure,
        billable_instance_seconds=float(attrs.get("billable_seconds") or 0.0),
        usd=attrs.get("usd"),
        samples=int(attrs.get("samples") or 0),
        steady_samples_per_second=_number(attrs.get("steady_samples_per_second")),
        quality=_number(attrs.get("quality")),
        reached=attrs.get("reached"),
        run_id=attrs.get("run_id"),
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def finished(search: Search, found: Sequence[Record]) -> list[Record]:
    """Return the trials that have their objective's values and keep to its bound."""
    return [
        record
        for record in found
        if record.state == "complete"
        and record.ended is not None
        and values_of(search.objective, record.ended) is not None
        and (excess(search.objective, record.ended) or 0.0) <= 0
    ]


def best(search: Search, found: Sequence[Record]) -> Record | None:
    """Return the finished trial of the best cost; None where none has finished."""
    sign = -1.0 if search.objective.directions[0] == "maximize" else 1.0
    return min(finished(search, found), key=lambda record: sign * _cost(search, record), default=None)


def _cost(search: Search, record: Record) -> float:
    assert record.ended is not None
    return cost_of(search.objective, record.ended)


def largest_batch_size(search: Search, found: Iterable[Record]) -> float:
    """Return the largest batch size that may fit: below each that ran out of memory."""
    known = search.costs.largest_batch_size if search.costs else math.inf
    too_large = [record.point.batch_size for record in found if record.failure_class == OUT_OF_MEMORY]
    below = [size for size in search.space.batch_sizes if size < min(too_large, default=math.inf)]
    return min(known, max(below, default=0))


def free_points(search: Search, found: Sequence[Record]) -> tuple[Point, ...]:
    """Return the points that no trial has, and that may fit the memory."""
    taken = {record.point for record in found}
    largest = largest_batch_size(search, found)
    return tuple(point for point in search.space.points if point not in taken and point.batch_size <= largest)


def nearest(point: Point, among: Sequence[Point]) -> Point:
    """Return the point that is fewest octaves away in batch size and multiplier together."""
    return min(among, key=lambda other: (octaves(point, other), other))


def octaves(one: Point, other: Point) -> float:
    """Return the distance of two points in factors of two."""
    size = math.log2(one.batch_size / other.batch_size)
    return math.hypot(size, math.log2(one.multiplier / other.multiplier))
