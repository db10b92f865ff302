"""What each trial tells of the samples that its point needs, and of what a sample costs. Pure.

A trial that ended before its goal is not left out: it needed more than it saw, and how much more is read from where it
stood when trials that came to the goal stood there. With a bound instead of a target, what is asked is the same: the
samples after which the quality is within the bound, which must be no more than the whole training's.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from sweeps.cost_model.costs import CostModel, Measured, cost_model, paced, with_fixed
from sweeps.cost_model.curves import best_value, diverged, is_better, samples_to, seconds_per_sample
from sweeps.cost_model.surrogate import Observation
from sweeps.cost_model.trials import Record, Search
from sweeps.space.objective import CurvePoint, Quality

REPEAT_ERROR = 0.1
"""Standard deviation of the logarithm of the samples to a target, between seeds."""
UNSEEN_ERROR = 0.5
"""Added for the part of a curve that was not seen."""
QUALITY_ERROR = 0.2
"""Standard deviation of the logarithm of the samples to a bound, told from the quality at the end."""
FAR_ERROR = 0.3
"""Added for each factor of e by which the quality at the end is off the bound: that curve was not seen."""
MOST_RECORDS = 100
"""Trials that a prediction is made of: its time grows with their cube, and a trial must start at once."""
MOST_REFERENCES = 10
"""Trials that reached the target which an unfinished one is held against."""


def goal(search: Search) -> tuple[Quality, float] | None:
    """Return the quality and the value of it that a trial must come to; None where the objective has none."""
    value = search.objective.bound if search.objective.target is None else search.objective.target
    return None if search.objective.quality is None or value is None else (search.objective.quality, value)


def telling(found: Sequence[Record]) -> list[Record]:
    """Return the trials that a prediction is made of: all, or of many the cheapest, some others and the latest.

    The cheapest, for the best lies near them; of those that did not complete the latest, which run or just did.
    """
    if len(found) <= MOST_RECORDS:
        return list(found)
    half = MOST_RECORDS // 2
    complete = [(record.ended.billable_instance_seconds, at) for at, record in enumerate(found) if record.ended]
    ranked = [found[at] for _, at in sorted(complete) if found[at].state == "complete"]
    others = [record for record in found if record.state != "complete" and record.curve]
    return ranked[:half] + _spread(ranked[half:], half // 2) + others[-(half // 2) :]


def _spread(ranked: Sequence[Record], count: int) -> list[Record]:
    """Return at most so many of the trials, evenly over their order."""
    return list(ranked[:: max(math.ceil(len(ranked) / count), 1)])


def costs_now(search: Search, found: Sequence[Record]) -> CostModel | None:
    """Return the costs as the trials correct them: their own pace, and what they paid beside their steps.

    Without a calibration the trials' curves are all that there is; None until one has told something.
    """
    found = telling(found)
    slopes = [
        (record.point.batch_size, slope)
        for record in found
        if math.isfinite(slope := seconds_per_sample(record.curve)) and slope > 0
    ]
    costs = paced(search.costs, slopes) if search.costs else _from_slopes(slopes)
    if costs is None:
        return None
    ended = [(record.point.batch_size, record.ended) for record in found if record.ended and record.ended.samples]
    return with_fixed(costs, [(size, each.samples, each.billable_instance_seconds) for size, each in ended])


def _from_slopes(slopes: Sequence[tuple[int, float]]) -> CostModel | None:
    sizes = sorted({size for size, _ in slopes})
    if not sizes:
        return None
    seconds = [statistics.median(slope for other, slope in slopes if other == size) for size in sizes]
    return cost_model(
        Measured(batch_size=size, fits=True, step_seconds=size * each)
        for size, each in zip(sizes, seconds, strict=True)
    )


def observations(search: Search, found: Sequence[Record]) -> list[Observation]:
    """Return what the trials tell of the samples to the goal; those that tell nothing are left out."""
    aim = goal(search)
    if aim is None:
        return []
    observe = _to_bound if search.objective.target is None else _to_target
    return observe(search, aim, telling(found))


def _to_target(search: Search, aim: tuple[Quality, float], found: Sequence[Record]) -> list[Observation]:
    reached = [record for record in found if record.ended and record.ended.reached and record.ended.samples]
    told = []
    for record in found:
        if record.ended and record.ended.reached and record.ended.samples:
            told.append(_observed(record, math.log(record.ended.samples), REPEAT_ERROR))
        elif record.curve:
            told.append(_unfinished(search, aim[0], record, _spread(reached, MOST_REFERENCES)))
    return told


def _observed(record: Record, log_samples: float, error: float) -> Observation:
    return Observation(point=record.point, log_samples=log_samples, error=error)


def _unfinished(search: Search, quality: Quality, record: Record, reached: Sequence[Record]) -> Observation:
    """Return what a trial that has not come to the target tells: more than it saw, and as much as others suggest."""
    seen = max(record.curve[-1].samples, 1)
    if diverged(quality, record.curve):
        # It says where not to go, not how far the wrong way is.
        worst = max((other.ended.samples for other in reached if other.ended), default=search.samples)
        return _observed(record, math.log(2 * max(worst, seen)), UNSEEN_ERROR + REPEAT_ERROR)
    suggested = suggested_samples(quality, record.curve, reached)
    needed = max(suggested, 1.1 * seen) if math.isfinite(suggested) else 2.0 * seen
    return _observed(record, math.log(needed), REPEAT_ERROR + UNSEEN_ERROR * (1 - seen / needed))


def suggested_samples(quality: Quality, curve: Sequence[CurvePoint], reached: Sequence[Record]) -> float:
    """Return the samples to the target that a curve suggests; NaN where none that reached it can tell.

    Curves of one task look alike but for their pace (Domhan et al. 2015, IJCAI, extrapolate families of them): one that
    took twice the samples of another to its present quality is taken to need twice as many in all. The median over the
    trials that reached the target.
    """
    value = best_value(quality, curve)
    now = samples_to(quality, curve, value)
    guesses = []
    for other in reached:
        then = samples_to(quality, other.curve, value)
        if other.ended and other.curve and is_better(quality, value, other.curve[0].value) and 0 < then < math.inf:
            guesses.append(other.ended.samples * now / then)
    return statistics.median(guesses) if guesses else math.nan


def _to_bound(search: Search, aim: tuple[Quality, float], found: Sequence[Record]) -> list[Observation]:
    quality, bound = aim
    slope = _improvement(quality, bound, found)
    sign = -1.0 if quality.higher_is_better else 1.0
    told = []
    for record in found:
        samples, value, unseen = _last(search, record)
        if math.isfinite(value) and samples and not diverged(quality, record.curve):
            off = min(max(sign * (value - bound) / slope, -3.0), 3.0)
            error = QUALITY_ERROR + FAR_ERROR * abs(off) + UNSEEN_ERROR * unseen
            told.append(_observed(record, math.log(samples) + off, error))
        elif record.curve:
            told.append(_observed(record, math.log(2 * search.samples), UNSEEN_ERROR + QUALITY_ERROR))
    return told


def _last(search: Search, record: Record) -> tuple[float, float, float]:
    """Return where a trial stands: its samples, its quality, and the share of the training that was not seen."""
    if record.ended and record.state == "complete":
        return record.ended.samples, record.ended.quality, 0.0
    if not record.curve:
        return 0.0, math.nan, 1.0
    last = record.curve[-1]
    return last.samples, last.value, max(1 - last.samples / search.samples, 0.0)


def _improvement(quality: Quality, bound: float, found: Sequence[Record]) -> float:
    """Return how much the quality improves for each factor of e in samples, over the second half of the curves."""
    slopes = []
    for record in found:
        told = [point for point in record.curve if point.samples and math.isfinite(point.value)]
        late = [point for point in told if point.samples >= told[-1].samples / 2]
        if late and late[0].samples < late[-1].samples:
            slopes.append(abs(late[-1].value - late[0].value) / math.log(late[-1].samples / late[0].samples))
    least = 0.02 * abs(bound) or 0.02
    return max(statistics.median(slopes), least) if slopes else 5 * least
