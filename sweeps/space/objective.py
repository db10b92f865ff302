"""What a sweep looks for, and what a job that has ended is worth by it. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

CostName = Literal["billable_seconds", "usd", "steady_samples_per_second"]


@dataclass(frozen=True, kw_only=True)
class Quality:
    """The measure of what was learnt."""

    metric: str
    """Evaluation metric, such as `eval_loss`."""
    higher_is_better: bool

    def is_as_good(self, value: float, bound: float) -> bool:
        """Tell whether a value is the bound or better; NaN never is."""
        return value >= bound if self.higher_is_better else value <= bound


@dataclass(frozen=True, kw_only=True)
class Objective:
    """What is made small or large, and under which condition.

    Three kinds. With a `target` the jobs end when the quality is reached, and what counts is the cost until then; one
    that has not reached it has no value. With a `bound` all jobs train the same samples, and what counts is the cost of
    those whose quality is no worse than the bound. With `is_front` cost and quality are two objectives.
    """

    cost: CostName
    """Made small; `steady_samples_per_second` is made large."""
    quality: Quality | None = None
    """None goes with `steady_samples_per_second` alone."""
    target: float | None = None
    """Value of the quality to reach."""
    bound: float | None = None
    """Worst value of the quality that is let pass."""
    is_front: bool = False
    """Whether the quality is an objective of its own."""

    @property
    def directions(self) -> list[Literal["minimize", "maximize"]]:
        """Optuna's directions, the cost first."""
        first: Literal["minimize", "maximize"] = "maximize" if self.cost == "steady_samples_per_second" else "minimize"
        if not self.is_front or self.quality is None:
            return [first]
        return [first, "maximize" if self.quality.higher_is_better else "minimize"]


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """An evaluation of a job, while it runs or afterwards."""

    samples: int
    """Seen until then: the axis on which jobs of different batch sizes compare."""
    value: float
    """The quality's metric."""
    billable_instance_seconds: float
    """Since the start of training, over all instances, compile and warm-up included."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a trial's job ended, and what it took."""

    failure: tuple[str, str] | None = None
    """(class, reason) of one that did not complete; `Stopped` is one that was pruned, or that a person stopped."""
    billable_instance_seconds: float = 0.0
    """Seconds over all instances, as billed, whatever the outcome."""
    usd: float | None = None
    """What they cost, where the price is known."""
    samples: int = 0
    """Seen."""
    steady_samples_per_second: float = math.nan
    quality: float = math.nan
    """The last evaluation's."""
    reached: bool | None = None
    """Whether the target was reached; None where there is none."""
    run_id: str | None = None
    """The job's MLflow run."""


def cost_of(objective: Objective, ended: Ended) -> float:
    """Return the job's figure of the objective's cost; NaN where it has none."""
    if objective.cost == "usd":
        return math.nan if ended.usd is None else ended.usd
    if objective.cost == "billable_seconds":
        return ended.billable_instance_seconds
    return ended.steady_samples_per_second


def values_of(objective: Objective, ended: Ended) -> list[float] | None:
    """Return the trial's values in the order of `directions`; None of a job that has none (failed, not reached)."""
    cost = cost_of(objective, ended)
    if ended.failure or not math.isfinite(cost) or (objective.target is not None and not ended.reached):
        return None
    if not objective.is_front:
        return [cost]
    return [cost, ended.quality] if math.isfinite(ended.quality) else None


def excess(objective: Objective, ended: Ended) -> float | None:
    """Return by how much the quality is beyond the bound: at most 0 for what is let pass; None without a bound."""
    if objective.bound is None or objective.quality is None:
        return None
    sign = -1.0 if objective.quality.higher_is_better else 1.0
    found = sign * (ended.quality - objective.bound)
    return found if math.isfinite(found) else math.inf
