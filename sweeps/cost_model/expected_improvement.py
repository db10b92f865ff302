"""What each free point promises: the billable seconds that it is expected to save. Pure.

The expected saving against the best so far is the expected improvement of Jones et al. 1998 ("Efficient Global
Optimization", J. Global Optimization 13), in seconds: the cost of a sample is known, so only the samples are uncertain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from sweeps.cost_model.costs import CostModel
from sweeps.cost_model.estimates import REPEAT_ERROR, costs_now, goal, observations
from sweeps.cost_model.surrogate import Array, Observation, Prediction, predict
from sweeps.cost_model.trials import Record, Search, best, free_points
from sweeps.space.grid import Point

LEAST_SAVING = 0.01
"""Share of the best bill: what promises less is not worth a trial."""
FEWEST_TRIALS = 4
"""Before which no search for a cost ends by itself: a single bill that a disturbed machine has swollen misleads it."""


@dataclass(frozen=True, kw_only=True)
class Promise:
    """What is expected of one point."""

    point: Point
    saving_seconds: float
    """Expected billable instance seconds below the best so far; what is worse counts as 0."""
    billable_instance_seconds: float
    """Expected bill of its trial, which ends at the best so far at the latest."""


def promises(search: Search, found: Sequence[Record]) -> list[Promise]:
    """Return the free points with what they promise; none where the objective is not one cost with a goal."""
    free = free_points(search, found)
    if goal(search) is None or search.objective.is_front or not free:
        return []
    costs = costs_now(search, found)
    prediction = _prediction(search, found, free)
    # Until a trial has told what a sample costs, all cost the same.
    by_size = {size: costs.seconds_per_sample(size) if costs else 1.0 for size in {point.batch_size for point in free}}
    seconds = np.maximum([by_size[point.batch_size] for point in free], 1e-9)
    fixed = costs.fixed_seconds if costs else 0.0
    so_far = _best_seconds(search, found, costs, seconds, fixed)
    expect = _to_target if search.objective.target is not None else _within_bound
    savings, bills = expect(prediction, search.samples, seconds, fixed, so_far)
    return [
        Promise(point=point, saving_seconds=float(saving), billable_instance_seconds=float(bill))
        for point, saving, bill in zip(free, savings, bills, strict=True)
    ]


def _prediction(search: Search, found: Sequence[Record], free: Sequence[Point]) -> Prediction:
    """Return what is expected at the free points, running trials counting as if they came out as expected."""
    seen = observations(search, found)
    silent = [record.point for record in found if record.state == "running" and not record.curve]
    if silent:
        expected = predict(search.space, search.base, seen, silent, search.samples / 2).mean
        seen += [
            Observation(point=point, log_samples=float(each), error=REPEAT_ERROR)
            for point, each in zip(silent, expected, strict=True)
        ]
    return predict(search.space, search.base, seen, free, search.samples / 2)


def _best_seconds(
    search: Search, found: Sequence[Record], costs: CostModel | None, seconds: Array, fixed: float
) -> float:
    """Return the best bill so far; of none, the dearest whole training's, so that every one that gets there saves."""
    record = best(search, found)
    if record is not None and record.ended is not None and costs is not None:
        return record.ended.billable_instance_seconds
    return float(fixed + search.samples * seconds.max())


def _to_target(
    prediction: Prediction, samples: int, seconds: Array, fixed: float, best_seconds: float
) -> tuple[Array, Array]:
    """Return the expected savings and bills of trials that end at the target; past the whole training nothing comes."""
    affordable = np.minimum((best_seconds - fixed) / seconds, samples)
    log_affordable = np.log(np.maximum(affordable, 1e-9))
    standard = (log_affordable - prediction.means) / prediction.deviations
    reaches = ndtr(standard)
    partial = np.exp(prediction.means + prediction.deviations**2 / 2) * ndtr(standard - prediction.deviations)
    savings = prediction.weights @ ((best_seconds - fixed) * reaches - seconds * partial)
    # A trial that does not get there in time is stopped when it has paid as much as the best.
    bills = fixed + prediction.weights @ (seconds * (partial + affordable * (1 - reaches)))
    return np.maximum(savings, 0.0), np.asarray(bills)


def _within_bound(
    prediction: Prediction, samples: int, seconds: Array, fixed: float, best_seconds: float
) -> tuple[Array, Array]:
    """Return the expected savings and bills of trials that all train the same samples."""
    likely = prediction.weights @ ndtr((math.log(samples) - prediction.means) / prediction.deviations)
    bills = fixed + samples * seconds
    return np.maximum(best_seconds - bills, 0.0) * likely, np.asarray(bills)


def most_promising(search: Search, found: Sequence[Record]) -> Point | None:
    """Return the free point to train next: the base first, then by expected saving; None where none is left."""
    free = free_points(search, found)
    if not free:
        return None
    if search.base in free and not found:
        return search.base
    ranked = promises(search, found)
    return (
        max(ranked, key=lambda each: (each.saving_seconds, -each.billable_instance_seconds)).point
        if ranked
        else free[0]
    )


def nothing_left(search: Search, found: Sequence[Record]) -> str | None:
    """Return the sentence why no further trial is worth its price; None while one is."""
    if not free_points(search, found):
        return f"all {len(search.space.points)} points that may fit the memory have been trained"
    if search.objective.cost == "steady_samples_per_second":
        return _no_faster(search, found)
    ranked = promises(search, found)
    record = best(search, found)
    if not ranked or record is None or record.ended is None or len(found) < FEWEST_TRIALS:
        return None
    top = max(ranked, key=lambda each: each.saving_seconds)
    if top.saving_seconds >= LEAST_SAVING * record.ended.billable_instance_seconds:
        return None
    return (
        f"the best of {len(ranked)} free point{'' if len(ranked) == 1 else 's'} (batch {top.point.batch_size}, rate × "
        f"{top.point.multiplier:g}) is expected to save {top.saving_seconds:.3g} of "
        f"{record.ended.billable_instance_seconds:.3g} billable instance seconds, less than {100 * LEAST_SAVING:g} %"
    )


def _no_faster(search: Search, found: Sequence[Record]) -> str | None:
    """Return why no free point is worth a trial for its throughput: none is calibrated faster than the best."""
    record, costs = best(search, found), search.costs
    if search.objective.is_front or record is None or costs is None:
        return None
    fastest = max(costs.samples_per_second(point.batch_size) for point in free_points(search, found))
    known = costs.samples_per_second(record.point.batch_size)
    if fastest > known * (1 + LEAST_SAVING):
        return None
    return (
        f"no free batch size was calibrated at more than the {known:.4g} samples/s of batch {record.point.batch_size}"
    )
