"""Estimate, from each trial, the samples that its point needs and the cost of a sample. Pure.

A trial that ended before its goal still counts: its point needs more samples than it trained. The additional samples
are estimated from completed trials and the samples that they needed for the same quality. With a bound instead of a
target, the estimate is the number of samples after which the quality is within the bound; it must not exceed a whole
training.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from sweeps.cost_model.costs import CostModel, Measurement, cost_model, with_fixed_costs, with_trial_pace
from sweeps.cost_model.curves import best_value, diverged, is_better, samples_to_reach, seconds_per_sample
from sweeps.cost_model.surrogate import Observation
from sweeps.cost_model.trials import Record, Search
from sweeps.space.objective import CurvePoint, Quality

REPEAT_ERROR = 0.1
"""Standard deviation of the logarithm of the samples to a target, between seeds."""
UNSEEN_ERROR = 0.5
"""Standard deviation added for the untrained part of a curve."""
QUALITY_ERROR = 0.2
"""Standard deviation of the logarithm of the samples to a bound, estimated from the final quality."""
FAR_ERROR = 0.3
"""Standard deviation added for each factor of e between the trained samples and the samples to the bound."""
MAX_RECORDS = 100
"""Largest number of trials in a prediction. Its time grows with their cube, and the next trial waits for it."""
MAX_REFERENCES = 10
"""Largest number of trials that reached the target with which an unfinished trial is compared."""


def quality_goal(search: Search) -> tuple[Quality, float] | None:
    """Return the quality metric and the value that a trial must reach; None if the objective has no such value."""
    value = search.objective.bound if search.objective.target is None else search.objective.target
    return None if search.objective.quality is None or value is None else (search.objective.quality, value)


def select_informative(records: Sequence[Record]) -> list[Record]:
    """Return the trials that a prediction uses: all up to `MAX_RECORDS`, else the cheapest, some others and the latest.

    The cheapest trials are near the best point. The latest of the trials without completion are running or just ended.
    """
    if len(records) <= MAX_RECORDS:
        return list(records)
    half = MAX_RECORDS // 2
    complete = [(record.outcome.billable_instance_seconds, at) for at, record in enumerate(records) if record.outcome]
    ranked = [records[at] for _, at in sorted(complete) if records[at].state == "complete"]
    others = [record for record in records if record.state != "complete" and record.curve]
    return ranked[:half] + _spread(ranked[half:], half // 2) + others[-(half // 2) :]


def _spread(ranked: Sequence[Record], count: int) -> list[Record]:
    """Return at most `count` of the trials, evenly spaced."""
    return list(ranked[:: max(math.ceil(len(ranked) / count), 1)])


def corrected_costs(search: Search, records: Sequence[Record]) -> CostModel | None:
    """Return the cost model, corrected by the pace and the fixed costs of the trials.

    Without a calibration, the costs come from the trials' curves alone; None until a trial has two evaluations.
    """
    records = select_informative(records)
    slopes = [
        (record.point.batch_size, slope)
        for record in records
        if math.isfinite(slope := seconds_per_sample(record.curve)) and slope > 0
    ]
    costs = with_trial_pace(search.costs, slopes) if search.costs else _from_slopes(slopes)
    if costs is None:
        return None
    outcome = [
        (record.point.batch_size, record.outcome) for record in records if record.outcome and record.outcome.samples
    ]
    return with_fixed_costs(costs, [(size, each.samples, each.billable_instance_seconds) for size, each in outcome])


def _from_slopes(slopes: Sequence[tuple[int, float]]) -> CostModel | None:
    sizes = sorted({size for size, _ in slopes})
    if not sizes:
        return None
    seconds = [statistics.median(slope for other, slope in slopes if other == size) for size in sizes]
    return cost_model(
        Measurement(batch_size=size, fits=True, step_seconds=size * each)
        for size, each in zip(sizes, seconds, strict=True)
    )


def observations(search: Search, records: Sequence[Record]) -> list[Observation]:
    """Return the estimated samples to the goal of each trial; trials without any information are left out."""
    goal = quality_goal(search)
    if goal is None:
        return []
    observe = _to_bound if search.objective.target is None else _to_target
    return observe(search, goal, select_informative(records))


def _to_target(search: Search, goal: tuple[Quality, float], records: Sequence[Record]) -> list[Observation]:
    reached = [record for record in records if record.outcome and record.outcome.reached and record.outcome.samples]
    estimates = []
    for record in records:
        if record.outcome and record.outcome.reached and record.outcome.samples:
            estimates.append(_observed(record, math.log(record.outcome.samples), REPEAT_ERROR))
        elif record.curve:
            estimates.append(_estimate_unfinished(search, goal[0], record, _spread(reached, MAX_REFERENCES)))
    return estimates


def _observed(record: Record, log_samples: float, error: float) -> Observation:
    return Observation(point=record.point, log_samples=log_samples, error=error)


def _estimate_unfinished(search: Search, quality: Quality, record: Record, reached: Sequence[Record]) -> Observation:
    """Estimate the samples to the target for a trial that did not reach it.

    The estimate exceeds the samples that it trained, and is guided by other trials.
    """
    trained = max(record.curve[-1].samples, 1)
    if diverged(quality, record.curve):
        # A diverged curve shows only that the point is bad, not how bad it is.
        worst = max((other.outcome.samples for other in reached if other.outcome), default=search.samples)
        return _observed(record, math.log(2 * max(worst, trained)), UNSEEN_ERROR + REPEAT_ERROR)
    suggested = suggested_samples(quality, record.curve, reached)
    needed = max(suggested, 1.1 * trained) if math.isfinite(suggested) else 2.0 * trained
    return _observed(record, math.log(needed), REPEAT_ERROR + UNSEEN_ERROR * (1 - trained / needed))


def suggested_samples(quality: Quality, curve: Sequence[CurvePoint], reached: Sequence[Record]) -> float:
    """Estimate the samples to the target from a curve; NaN if no trial that reached the target is comparable.

    Curves of one task have the same shape at different paces (Domhan et al. 2015, IJCAI, extrapolate such families of
    curves). A curve that took twice the samples of another curve to its present quality is expected to need twice as
    many in total. The result is the median over the trials that reached the target.
    """
    value = best_value(quality, curve)
    now = samples_to_reach(quality, curve, value)
    guesses = []
    for other in reached:
        then = samples_to_reach(quality, other.curve, value)
        if other.outcome and other.curve and is_better(quality, value, other.curve[0].value) and 0 < then < math.inf:
            guesses.append(other.outcome.samples * now / then)
    return statistics.median(guesses) if guesses else math.nan


def _to_bound(search: Search, goal: tuple[Quality, float], records: Sequence[Record]) -> list[Observation]:
    quality, bound = goal
    slope = _improvement(quality, bound, records)
    sign = -1.0 if quality.higher_is_better else 1.0
    estimates = []
    for record in records:
        samples, value, unseen = _last(search, record)
        if math.isfinite(value) and samples and not diverged(quality, record.curve):
            off = min(max(sign * (value - bound) / slope, -3.0), 3.0)
            error = QUALITY_ERROR + FAR_ERROR * abs(off) + UNSEEN_ERROR * unseen
            estimates.append(_observed(record, math.log(samples) + off, error))
        elif record.curve:
            estimates.append(_observed(record, math.log(2 * search.samples), UNSEEN_ERROR + QUALITY_ERROR))
    return estimates


def _last(search: Search, record: Record) -> tuple[float, float, float]:
    """Return the latest state of a trial: its samples, its quality and the remaining share of the training."""
    if record.outcome and record.state == "complete":
        return record.outcome.samples, record.outcome.quality, 0.0
    if not record.curve:
        return 0.0, math.nan, 1.0
    last = record.curve[-1]
    return last.samples, last.value, max(1 - last.samples / search.samples, 0.0)


def _improvement(quality: Quality, bound: float, records: Sequence[Record]) -> float:
    """Return the improvement of the quality for each factor of e in samples, over the second half of the curves."""
    slopes = []
    for record in records:
        evaluated = [point for point in record.curve if point.samples and math.isfinite(point.value)]
        late = [point for point in evaluated if point.samples >= evaluated[-1].samples / 2]
        if late and late[0].samples < late[-1].samples:
            slopes.append(abs(late[-1].value - late[0].value) / math.log(late[-1].samples / late[0].samples))
    least = 0.02 * abs(bound) or 0.02
    return max(statistics.median(slopes), least) if slopes else 5 * least
