"""Objective of a sweep, and the value of an ended job under it. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from judging.doomed import Death
from training.contract.failures import Failure

CostName = Literal["billable_seconds", "usd", "steady_samples_per_second"]


@dataclass(frozen=True, kw_only=True)
class Quality:
    """Quality metric of a trained model."""

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
