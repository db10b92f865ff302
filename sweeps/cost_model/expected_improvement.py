"""Expected improvement of each free point: the billable seconds that it is expected to save. Pure.

This is the expected improvement of Jones et al. 1998 ("Efficient Global Optimization", J. Global Optimization 13) over
the best trial so far, in seconds. The cost of a sample is known, so only the number of samples is uncertain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from sweeps.cost_model.costs import CostModel
from sweeps.cost_model.estimates import REPEAT_ERROR, corrected_costs, observations, quality_goal
from sweeps.cost_model.surrogate import Array, Observation, Prediction, predict
from sweeps.cost_model.trials import Record, Search, best_trial, free_points
from sweeps.space.grid import Point

MIN_SAVING = 0.01
"""Smallest expected saving that is worth a trial, as a share of the best trial's cost."""
MIN_TRIALS = 4
"""Fewest trials before a search may end: with fewer, one cost that a disturbance increased would mislead it."""


@dataclass(frozen=True, kw_only=True)
class ExpectedImprovement:
    """Expected saving and cost of one point."""

    point: Point
    saving_seconds: float
    """Expected billable seconds saved against the best trial so far; an outcome that saves nothing counts as 0."""
    billable_instance_seconds: float
    """Expected cost of the trial. A trial is stopped at the cost of the best trial so far."""


def expected_improvements(search: Search, records: Sequence[Record]) -> list[ExpectedImprovement]:
    """Return the expected improvement of each free point; empty unless the objective is a single cost with a goal."""
    free = free_points(search, records)
    if quality_goal(search) is None or search.objective.is_front or not free:
        return []
    costs = corrected_costs(search, records)
    prediction = _prediction(search, records, free)
    # Until a trial shows the cost of a sample, all points count as equally expensive.
    by_size = {size: costs.seconds_per_sample(size) if costs else 1.0 for size in {point.batch_size for point in free}}
    seconds = np.maximum([by_size[point.batch_size] for point in free], 1e-9)
    fixed = costs.fixed_seconds if costs else 0.0
    so_far = _best_seconds(search, records, costs, seconds, fixed)
    expect = _to_target if search.objective.target is not None else _within_bound
    savings, expected_costs = expect(prediction, search.samples, seconds, fixed, so_far)
    return [
        ExpectedImprovement(point=point, saving_seconds=float(saving), billable_instance_seconds=float(cost))
        for point, saving, cost in zip(free, savings, expected_costs, strict=True)
    ]


def _prediction(search: Search, records: Sequence[Record], free: Sequence[Point]) -> Prediction:
    """Predict the samples at the free points, assuming that each running trial ends as expected."""
    observed = observations(search, records)
    silent = [record.point for record in records if record.state == "running" and not record.curve]
    if silent:
        expected = predict(search.space, search.base, observed, silent, search.samples / 2).mean
        observed += [
            Observation(point=point, log_samples=float(each), error=REPEAT_ERROR)
            for point, each in zip(silent, expected, strict=True)
        ]
    return predict(search.space, search.base, observed, free, search.samples / 2)


def _best_seconds(
    search: Search, records: Sequence[Record], costs: CostModel | None, seconds: Array, fixed: float
) -> float:
    """Return the cost of the best trial so far or, without a trial, of the most expensive whole training."""
    record = best_trial(search, records)
    if record is not None and record.outcome is not None and costs is not None:
        return record.outcome.billable_instance_seconds
    return float(fixed + search.samples * seconds.max())


def _to_target(
    prediction: Prediction, samples: int, seconds: Array, fixed: float, best_seconds: float
) -> tuple[Array, Array]:
    """Return the expected savings and costs of trials that end at the target or after a whole training."""
    affordable = np.minimum((best_seconds - fixed) / seconds, samples)
    log_affordable = np.log(np.maximum(affordable, 1e-9))
    standard = (log_affordable - prediction.means) / prediction.deviations
    reaches = ndtr(standard)
    partial = np.exp(prediction.means + prediction.deviations**2 / 2) * ndtr(standard - prediction.deviations)
    savings = prediction.weights @ ((best_seconds - fixed) * reaches - seconds * partial)
    # A trial that does not reach the target in time is stopped at the cost of the best trial.
    expected_costs = fixed + prediction.weights @ (seconds * (partial + affordable * (1 - reaches)))
    return np.maximum(savings, 0.0), np.asarray(expected_costs)


def _within_bound(
    prediction: Prediction, samples: int, seconds: Array, fixed: float, best_seconds: float
) -> tuple[Array, Array]:
    """Return the expected savings and costs of trials that all train the same number of samples."""
    likely = prediction.weights @ ndtr((math.log(samples) - prediction.means) / prediction.deviations)
    expected_costs = fixed + samples * seconds
    return np.maximum(best_seconds - expected_costs, 0.0) * likely, np.asarray(expected_costs)


def best_free_point(search: Search, records: Sequence[Record]) -> Point | None:
    """Return the free point to train next: the base first, then by expected saving; None if no point is free."""
    free = free_points(search, records)
    if not free:
        return None
    if search.base in free and not records:
        return search.base
    ranked = expected_improvements(search, records)
    return (
        max(ranked, key=lambda each: (each.saving_seconds, -each.billable_instance_seconds)).point
        if ranked
        else free[0]
    )


def stop_reason(search: Search, records: Sequence[Record]) -> str | None:
    """Return the reason why no further trial is worth its cost, in one sentence; None while one is."""
    if not free_points(search, records):
        return f"all {len(search.space.points)} points that may fit in memory have been trained"
    if search.objective.cost == "steady_samples_per_second":
        return _no_faster(search, records)
    ranked = expected_improvements(search, records)
    record = best_trial(search, records)
    if not ranked or record is None or record.outcome is None or len(records) < MIN_TRIALS:
        return None
    top = max(ranked, key=lambda each: each.saving_seconds)
    if top.saving_seconds >= MIN_SAVING * record.outcome.billable_instance_seconds:
        return None
    return (
        f"the best of {len(ranked)} free point{'' if len(ranked) == 1 else 's'} (batch {top.point.batch_size}, rate × "
        f"{top.point.multiplier:g}) is expected to save {top.saving_seconds:.3g} of "
        f"{record.outcome.billable_instance_seconds:.3g} billable seconds, less than {100 * MIN_SAVING:g} %"
    )


def _no_faster(search: Search, records: Sequence[Record]) -> str | None:
    """Return why no free point is worth a trial for its throughput: none was calibrated faster than the best."""
    record, costs = best_trial(search, records), search.costs
    if search.objective.is_front or record is None or costs is None:
        return None
    fastest = max(costs.samples_per_second(point.batch_size) for point in free_points(search, records))
    known = costs.samples_per_second(record.point.batch_size)
    if fastest > known * (1 + MIN_SAVING):
        return None
    return (
        f"no free batch size was calibrated at more than the {known:.4g} samples/s of batch {record.point.batch_size}"
    )
