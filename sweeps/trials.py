"""Objective of a sweep, and a study's search and trials so far, as plain values. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from judging.deterministic_failures import Death
from sweeps.search_space import Point, Space
from training.contract.failures import Failure

if TYPE_CHECKING:  # loading an experiment imports neither Optuna nor NumPy
    from optuna.trial import FrozenTrial

    from sweeps.costs import CostModel

OUT_OF_MEMORY = "OutOfMemory"
State = Literal["running", "complete", "pruned", "failed"]
CostName = Literal["billable_seconds", "usd", "steady_samples_per_second"]


@dataclass(frozen=True, kw_only=True)
class Quality:
    metric: str
    """Evaluation metric, such as `eval_loss`."""
    higher_is_better: bool

    def is_as_good(self, value: float, bound: float) -> bool:
        """Return whether a value equals the bound or is better; False for NaN."""
        return value >= bound if self.higher_is_better else value <= bound


@dataclass(frozen=True, kw_only=True)
class Objective:
    """Cost to optimise, and the condition on the quality.

    There are three kinds. With a `target`, jobs end when the quality is reached, and their cost until then counts; a
    job that does not reach it has no value. With a `bound`, all jobs train on equally many samples, and only jobs whose
    quality is no worse than the bound count. With `is_front`, the sweep searches for the Pareto front of cost and
    quality.
    """

    cost: CostName
    """Cost to minimise; `steady_samples_per_second` is maximised instead."""
    quality: Quality | None = None
    """Quality metric; None only with `steady_samples_per_second`."""
    target: float | None = None
    """Quality at which the jobs end."""
    bound: float | None = None
    """Worst acceptable quality."""
    is_front: bool = False
    """True if the quality is the second objective."""

    @property
    def names(self) -> list[str]:
        """Name of each objective, the cost first."""
        name = "billable_instance_seconds" if self.cost == "billable_seconds" else self.cost
        return [name, self.quality.metric] if self.is_front and self.quality else [name]

    @property
    def directions(self) -> list[Literal["minimize", "maximize"]]:
        """Optuna's direction of each objective, the cost first."""
        first: Literal["minimize", "maximize"] = "maximize" if self.cost == "steady_samples_per_second" else "minimize"
        if not self.is_front or self.quality is None:
            return [first]
        return [first, "maximize" if self.quality.higher_is_better else "minimize"]


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """One evaluation of a job."""

    samples: int
    """Samples trained so far. Jobs with different batch sizes are compared at equal samples."""
    value: float
    """Value of the quality metric."""
    billable_instance_seconds: float
    """Billable seconds of all instances since the job's billed time began, including compilation and warm-up."""


@dataclass(frozen=True, kw_only=True)
class TrialOutcome:
    """Outcome and cost of a trial's job."""

    failure: Failure | None = None
    """`Stopped` means pruned, or stopped by a person."""
    death: Death | None = None
    """Exception of which the job died."""
    billable_instance_seconds: float = 0.0
    """Charged seconds of all instances, also for a failed job."""
    usd: float | None = None
    """Cost, if the price is known."""
    samples: int = 0
    """Samples trained."""
    steady_samples_per_second: float = math.nan
    quality: float = math.nan
    """Value of the last evaluation."""
    reached: bool | None = None
    """True if the target was reached; None without a target."""
    run_id: str | None = None
    """Id of the job's MLflow run."""


def cost_of(objective: Objective, outcome: TrialOutcome) -> float:
    """Return the job's cost under the objective; NaN if it is unknown."""
    if objective.cost == "usd":
        return math.nan if outcome.usd is None else outcome.usd
    if objective.cost == "billable_seconds":
        return outcome.billable_instance_seconds
    return outcome.steady_samples_per_second


def values_of(objective: Objective, outcome: TrialOutcome) -> list[float] | None:
    """Return the trial's values in the order of `directions`; None if the job failed or did not reach the target."""
    cost = cost_of(objective, outcome)
    if outcome.failure or not math.isfinite(cost) or (objective.target is not None and not outcome.reached):
        return None
    if not objective.is_front:
        return [cost]
    return [cost, outcome.quality] if math.isfinite(outcome.quality) else None


def excess(objective: Objective, outcome: TrialOutcome) -> float | None:
    """Return by how much the quality is worse than the bound, at most 0 if acceptable; None without a bound."""
    if objective.bound is None or objective.quality is None:
        return None
    sign = -1.0 if objective.quality.higher_is_better else 1.0
    distance = sign * (outcome.quality - objective.bound)
    return distance if math.isfinite(distance) else math.inf


@dataclass(frozen=True, kw_only=True)
class Search:
    """The question that one study answers."""

    space: Space
    objective: Objective
    samples: int
    """Samples of a whole training, which a job trains unless it ends early; 0 if unknown."""
    base: Point
    """The experiment's own batch size, with the learning rate of the scaling rule."""
    costs: CostModel | None = None
    """Cost model from the calibration; None without a calibration."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """State of one trial."""

    point: Point
    state: State
    curve: tuple[CurvePoint, ...] = ()
    """Evaluations in the order of their samples."""
    outcome: TrialOutcome | None = None
    """None while the trial runs."""

    @property
    def failure_class(self) -> str | None:
        return self.outcome.failure.failure_class if self.outcome and self.outcome.failure else None


def records(trials: Iterable[FrozenTrial], space: Space) -> tuple[Record, ...]:
    """Return one record per point; trials without a point are left out.

    If several trials have the same point (a worker died and another one repeats its trial), the first one that has not
    failed counts.
    """
    by_point: dict[Point, Record] = {}
    for trial in trials:
        point = point_of(trial, space)
        if point is None or (point in by_point and by_point[point].state != "failed"):
            continue
        state = _STATES[trial.state.name]
        by_point[point] = Record(
            point=point,
            state=state,
            curve=tuple(
                CurvePoint(samples=samples, value=value, billable_instance_seconds=seconds)
                for samples, value, seconds in json.loads(trial.user_attrs.get("curve", "[]"))
            ),
            outcome=None if state == "running" else _outcome(trial.user_attrs, state),
        )
    return tuple(by_point.values())


_STATES: dict[str, State] = {
    "RUNNING": "running",
    "WAITING": "running",
    "COMPLETE": "complete",
    "PRUNED": "pruned",
    "FAIL": "failed",
}
"""States by Optuna's name. A waiting trial counts as running: it has a point and perhaps a job, which the worker that
claims it continues."""


def point_of(trial: FrozenTrial, space: Space) -> Point | None:
    """Return a trial's point; None until it has all of its parameters."""
    attrs: Mapping[str, Any] = trial.user_attrs
    if "batch_size" in attrs and "multiplier" in attrs:
        others = attrs.get("scaling", ""), attrs.get("hyperparameters", "")
        return Point(int(attrs["batch_size"]), float(attrs["multiplier"]), *others)
    params = {**trial.params, **trial.system_attrs.get("fixed_params", {})}
    return space.point(params) if space.params(space.points[0]).keys() <= params.keys() else None


def _outcome(attrs: Mapping[str, Any], state: State) -> TrialOutcome:
    end = str(attrs.get("end", ""))
    kind, _, why = end.partition(": ")
    failure = None
    if kind == "pruned":
        failure = Failure("Stopped", why)
    elif kind == "failed" or state == "failed":
        failure = Failure(why.split(":")[0] or "Error", why)
    return TrialOutcome(
        failure=failure,
        billable_instance_seconds=float(attrs.get("billable_seconds") or 0.0),
        usd=attrs.get("usd"),
        samples=int(attrs.get("samples") or 0),
        steady_samples_per_second=attrs.get("steady_samples_per_second", math.nan),
        quality=attrs.get("quality", math.nan),
        reached=attrs.get("reached"),
        run_id=attrs.get("run_id"),
    )


def eligible_trials(search: Search, records: Sequence[Record]) -> list[Record]:
    """Return the completed trials that have a value of the objective and are within its bound."""
    return [
        record
        for record in records
        if record.state == "complete"
        and record.outcome is not None
        and values_of(search.objective, record.outcome) is not None
        and (excess(search.objective, record.outcome) or 0.0) <= 0
    ]


def best_trial(search: Search, records: Sequence[Record]) -> Record | None:
    """Return the finished trial with the best cost, or None."""
    sign = -1.0 if search.objective.directions[0] == "maximize" else 1.0
    return min(eligible_trials(search, records), key=lambda record: sign * cost(search, record), default=None)


def cost(search: Search, record: Record) -> float:
    """Return an ended trial's cost under the objective; NaN if it is unknown."""
    assert record.outcome is not None
    return cost_of(search.objective, record.outcome)


def largest_batch_size(search: Search, records: Iterable[Record]) -> float:
    """Return the largest batch size that may fit in memory: smaller than every size that ran out of memory."""
    known = search.costs.largest_batch_size if search.costs else math.inf
    too_large = [record.point.batch_size for record in records if record.failure_class == OUT_OF_MEMORY]
    below = [size for size in search.space.batch_sizes if size < min(too_large, default=math.inf)]
    return min(known, max(below, default=0))


def free_points(search: Search, records: Sequence[Record]) -> tuple[Point, ...]:
    """Return the points without a trial that may fit in memory."""
    taken = {record.point for record in records}
    largest = largest_batch_size(search, records)
    return tuple(point for point in search.space.points if point not in taken and point.batch_size <= largest)


def nearest(point: Point, among: Sequence[Point]) -> Point:
    """Return the point at the smallest distance, see `octaves`."""
    return min(among, key=lambda other: (octaves(point, other), other))


def octaves(one: Point, other: Point) -> float:
    """Return the Euclidean distance of two points in octaves of batch size and multiplier.

    Another scaling rule, and another value of a hyperparameter, is one away.
    """
    size = math.log2(one.batch_size / other.batch_size)
    chosen, others = one.chosen, other.chosen
    differing = (each != others[name] for name, each in chosen.items())
    return math.hypot(size, math.log2(one.multiplier / other.multiplier), one.scaling != other.scaling, *differing)
