"""Decide which trials are stopped, when a search has ended, and which settings are trained again. Pure.

Trials are compared at equal samples or equal quality, never at equal steps or times, and by their total cost: the cost
so far includes the start and the compilation, as do the costs that it is compared with.

The rule for the end was chosen on made-up surfaces and one recorded grid; docs/decisions/0028 compares it with others.
Seeds differ by 6 to 10 % in the samples that they need to reach a target, so the cheapest of many trials is partly the
luckiest. The finalists therefore train a second time with another seed, see docs/decisions/0029. Then the winner, its
controls and the best point of each other compiler train with new seeds. Only these jobs count for the verdict.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from sweeps.search_space import Point
from sweeps.trials import CurvePoint, Quality, Record, Search, best_trial, cost, eligible_trials, free_points, octaves

SLACK = 0.8
"""Share of the fewest samples that any trial needed from the same quality on: the running trial may be faster."""
MIN_GAIN = 0.01
"""Least share by which a trial must be cheaper than all before it to count as an improvement."""
PATIENCE = 4
"""Trials without an improvement before a search may end."""
MIN_REACHED = 2
"""Trials that must have reached the goal before a search may end: a single one may have been lucky."""
NEIGHBOUR_OCTAVES = 1.5
"""Largest distance of a neighbour: one octave in batch size, in learning rate, or in both."""
MAX_GAP = 0.1
"""Largest share by which a finalist's trial may be dearer than the best one."""
Key = TypeVar("Key", bound=Hashable)
Setting = tuple[str, Point]
"""A compiler and a point."""


def should_prune(
    search: Search,
    records: Sequence[Record],
    point: Point,
    curve: Sequence[CurvePoint],
    billable_instance_seconds: float,
) -> str | None:
    """Return the reason why a running trial can no longer win, in one sentence; None while it can.

    `curve` and `billable_instance_seconds` are the trial's values so far. With two objectives nothing is pruned,
    because an expensive trial may have the best quality. Throughput trials are not pruned either, because they are
    short.
    """
    if search.objective.is_front or search.objective.cost == "steady_samples_per_second":
        return None
    quality = search.objective.quality
    if quality is not None and diverged(quality, curve):
        return f"its {quality.metric} is {curve[-1].value:.4g} after {curve[0].value:.4g}: it diverged"
    others = [record for record in records if record.point != point]
    record = best_trial(search, others)
    if record is None or record.outcome is None:
        return None
    best_seconds = record.outcome.billable_instance_seconds
    if billable_instance_seconds * _price(search, others) >= best_seconds * _price(search, [record]):
        spent = f"{billable_instance_seconds:.4g} billable seconds"
        return f"{spent} so far, no fewer than the {best_seconds:.4g} of the best trial"
    goal = quality_goal(search)
    if goal is None or not curve:
        return None
    if search.objective.target is None:
        return _reason_beyond_bound(search, goal, others, curve)
    return _reason_out_of_reach(goal, others, curve, billable_instance_seconds, best_seconds)


def quality_goal(search: Search) -> tuple[Quality, float] | None:
    """Return the quality metric and the value that a trial must reach; None if the objective has no such value."""
    value = search.objective.bound if search.objective.target is None else search.objective.target
    return None if search.objective.quality is None or value is None else (search.objective.quality, value)


def _price(search: Search, records: Sequence[Record]) -> float:
    """Return the cost of a billable second in the objective's currency, from priced trials; 1 if none has a price."""
    if search.objective.cost != "usd":
        return 1.0
    prices = [
        record.outcome.usd / record.outcome.billable_instance_seconds
        for record in records
        if record.outcome and record.outcome.usd and record.outcome.billable_instance_seconds
    ]
    return statistics.median(prices) if prices else 1.0


def _reason_out_of_reach(
    goal: tuple[Quality, float],
    others: Sequence[Record],
    curve: Sequence[CurvePoint],
    billable_instance_seconds: float,
    best_seconds: float,
) -> str | None:
    """Return why a trial cannot reach the target for less than the best trial's cost; None while it can.

    No trial reached the target from this quality in fewer samples, and no trial that reached it was worse at equal
    samples. The cost of a sample is the trial's own, which is known from the second evaluation on: during other trials
    the instance may have been faster or slower.
    """
    quality, target = goal
    seconds = seconds_per_sample(curve)
    if not math.isfinite(seconds):
        return None
    reached = [record for record in others if record.outcome and record.outcome.reached and record.curve]
    more = fewest_remaining_samples(quality, reached, best_value(quality, curve), target)
    least = billable_instance_seconds + SLACK * more * seconds
    if not math.isfinite(more) or least <= best_seconds or not is_behind(quality, reached, curve):
        return None
    return (
        f"at {quality.metric} {curve[-1].value:.4g} after {curve[-1].samples:,} samples it needs at least "
        f"{SLACK * more:,.0f} more, {least:.4g} billable seconds in all; the best so far took {best_seconds:.4g}"
    )


def _reason_beyond_bound(
    search: Search, goal: tuple[Quality, float], others: Sequence[Record], curve: Sequence[CurvePoint]
) -> str | None:
    """Return why a trial cannot come within the bound by its end; None while it can.

    Three conditions must hold: at equal samples the trial is worse than every trial that ended within the bound, it is
    further from the bound than any trial moved after as many samples, and no trial came within the bound from this
    quality in the remaining samples.
    """
    quality, bound = goal
    within = [
        record
        for record in others
        if record.state == "complete"
        and record.curve
        and record.outcome is not None
        and quality.is_as_good(record.outcome.quality, bound)
    ]
    samples, value = curve[-1].samples, best_value(quality, curve)
    moves = [abs(record.curve[-1].value - value_at(record.curve, samples)) for record in others if record.curve]
    known = [move for move in moves if math.isfinite(move)]
    if not known or not within or not search.samples or not is_behind(quality, within, curve):
        return None
    left = search.samples - samples
    more = fewest_remaining_samples(quality, within, value, bound)
    if abs(value - bound) <= max(known) / SLACK or quality.is_as_good(value, bound) or SLACK * more <= left:
        return None
    return (
        f"at {quality.metric} {value:.4g} after {samples:,} samples it is further from {bound:.4g} than any trial "
        f"moved in the remaining {left:,}"
    )


def fewest_remaining_samples(quality: Quality, reached: Sequence[Record], value: float, goal: float) -> float:
    """Return the fewest samples that any trial needed from `value` to the goal; infinite if no trial reached both.

    A trial's curve before its first evaluation is unknown, so the samples from there to `value` count as 0.
    """
    curves = [record.curve for record in reached]
    needed = [samples_to_reach(quality, each, goal) - samples_to_reach(quality, each, value) for each in curves]
    return min((max(each, 0.0) for each in needed if not math.isnan(each)), default=math.inf)


def is_behind(quality: Quality, others: Sequence[Record], curve: Sequence[CurvePoint]) -> bool:
    """Return whether a curve is worse than all others at its samples. Trials that ended earlier are left out."""
    value = best_value(quality, curve)
    return not any(
        quality.is_as_good(value, then)
        for other in others
        if not math.isnan(then := best_value(quality, other.curve, curve[-1].samples))
        and other.curve[-1].samples >= curve[-1].samples
    )


def samples_to_reach(quality: Quality, curve: Sequence[CurvePoint], value: float) -> float:
    """Return the samples at which a curve first reaches `value` or better, interpolated between two points.

    Infinite if the curve never reaches it. If the first point already reaches it, return the samples of that point,
    because the curve before it is unknown.
    """
    for at, point in enumerate(curve):
        if not quality.is_as_good(point.value, value):
            continue
        before = curve[at - 1] if at else point
        if before.value == point.value or not math.isfinite(before.value):
            return float(point.samples)
        share = (value - before.value) / (point.value - before.value)
        return before.samples + share * (point.samples - before.samples)
    return math.inf


def value_at(curve: Sequence[CurvePoint], samples: float) -> float:
    """Return a curve's value at `samples`, interpolated between two points; NaN outside of the curve."""
    if not curve:
        return math.nan
    samples_of_points, values = [point.samples for point in curve], [point.value for point in curve]
    return float(np.interp(samples, samples_of_points, values, left=math.nan, right=math.nan))


def best_value(quality: Quality, curve: Sequence[CurvePoint], up_to: float = math.inf) -> float:
    """Return the best value of a curve within its first `up_to` samples; NaN if the curve has no value there."""
    values = [point.value for point in curve if point.samples <= up_to and not math.isnan(point.value)]
    if not values:
        return math.nan
    return max(values) if quality.higher_is_better else min(values)


def seconds_per_sample(curve: Sequence[CurvePoint]) -> float:
    """Return the billable seconds per sample between a curve's first and last point; NaN for fewer than two points.

    The seconds before the first point do not count, because they include the start and the compilation.
    """
    if not curve or curve[0].samples >= curve[-1].samples:
        return math.nan
    first, last = curve[0], curve[-1]
    return (last.billable_instance_seconds - first.billable_instance_seconds) / (last.samples - first.samples)


def diverged(quality: Quality, curve: Sequence[CurvePoint], evaluations: int = 3, margin: float = 0.1) -> bool:
    """Return whether a training has diverged.

    It has if its last value is not finite, or if each of the last `evaluations` values is worse than the first one by
    more than `margin`, relative to the first value.
    """
    if curve and not math.isfinite(curve[-1].value):
        return True
    if len(curve) <= evaluations:
        return False
    first = curve[0].value
    sign = -1.0 if quality.higher_is_better else 1.0
    return all(sign * (point.value - first) > margin * abs(first) for point in curve[-evaluations:])


def stop_reason(search: Search, records: Sequence[Record]) -> str | None:
    """Return the reason why no better point is likely, in one sentence; None while one is.

    A search for the lowest cost ends if all neighbours of its best point were tried, and the last trials improved
    nothing. A search for throughput ends with the fastest calibrated batch size. A search for a front does not end.
    """
    if not free_points(search, records):
        return f"all {len(search.space.points)} points that may fit in memory have been trained"
    if search.objective.is_front:
        return None
    if search.objective.cost == "steady_samples_per_second":
        return _no_faster(search, records)
    return None if quality_goal(search) is None else _no_cheaper(search, records)


def _no_cheaper(search: Search, records: Sequence[Record]) -> str | None:
    best = best_trial(search, records)
    since = trials_since_improvement(search, records)
    if best is None or since < PATIENCE or len(eligible_trials(search, records)) < MIN_REACHED:
        return None
    if any(octaves(best.point, free) <= NEIGHBOUR_OCTAVES for free in free_points(search, records)):
        return None
    return (
        f"the last {since} trials were no better than batch {best.point.batch_size}, rate × "
        f"{best.point.multiplier:g}, and all of its neighbours were tried"
    )


def trials_since_improvement(search: Search, records: Sequence[Record]) -> int:
    """Return the number of ended trials since the last one that was cheaper than all before it by `MIN_GAIN`.

    Failed trials do not count, because they say nothing about their points. Before the first trial that reached the
    goal, the answer is the number of all trials.
    """
    eligible = {record.point for record in eligible_trials(search, records)}
    least, since = math.inf, 0
    for record in records:
        if record.outcome is None or record.state == "failed":
            continue
        since += 1
        if record.point in eligible and cost(search, record) < least * (1 - MIN_GAIN):
            least, since = cost(search, record), 0
    return since


def _no_faster(search: Search, records: Sequence[Record]) -> str | None:
    """Return why no free point is worth a trial for its throughput: none was calibrated faster than the best."""
    record, costs = best_trial(search, records), search.costs
    if record is None or costs is None:
        return None
    fastest = max(costs.samples_per_second(point.batch_size) for point in free_points(search, records))
    known = costs.samples_per_second(record.point.batch_size)
    if fastest > known * (1 + MIN_GAIN):
        return None
    return (
        f"no free batch size was calibrated at more than the {known:.4g} samples/s of batch {record.point.batch_size}"
    )


def finalists(search: Search, records: Sequence[Record], most: int) -> list[Point]:
    """Return the points that one trial each cannot rank, the cheapest first; empty if there is only one.

    Only a search to a target or within a bound has finalists: throughput does not depend on the seed.
    """
    if search.objective.is_front or search.objective.cost == "steady_samples_per_second":
        return []
    ranked = sorted(eligible_trials(search, records), key=lambda record: cost(search, record))
    near = [record.point for record in ranked if cost(search, record) <= cost(search, ranked[0]) * (1 + MAX_GAP)]
    return near[:most] if min(len(near), most) > 1 else []


def choose(costs: Mapping[Key, Sequence[float]]) -> Key | None:
    """Return the key with the lowest geometric mean cost; None if every one has a training without success.

    `costs` contains the costs of the trainings of each finalist, and infinity or NaN for one that failed or missed the
    goal.
    """
    usable = {key: values for key, values in costs.items() if all(map(math.isfinite, values))}
    return min(usable, key=lambda key: math.fsum(map(math.log, usable[key])) / len(usable[key]), default=None)


def settings(best: Mapping[str, tuple[Point, float]], baseline: Setting, *, maximise: bool = False) -> list[Setting]:
    """Return the settings to repeat, the baseline first; empty if no trial completed.

    `best` contains the best point and its cost for each compiler that has one. The winner and the baseline span a two
    by two factorial of compiler and batch size. If both have the same compiler, the factorial's second compiler is the
    best other one.
    """
    if not best:
        return []
    ranked = sorted(best, key=lambda compiler: best[compiler][1], reverse=maximise)
    winner = ranked[0]
    others = [compiler for compiler in (baseline[0], *ranked) if compiler != winner]
    compilers = [baseline[0], winner, *others[:1]]
    factorial = [(compiler, point) for point in (baseline[1], best[winner][0]) for compiler in compilers]
    best_of_each = [(compiler, best[compiler][0]) for compiler in ranked]
    return list(dict.fromkeys([baseline, (winner, best[winner][0]), *factorial, *best_of_each]))


def rivals(best: Mapping[str, tuple[Point, float]], baseline: Setting) -> list[tuple[Setting, Setting]]:
    """Return the best setting of each other compiler, with the winner. All settings are compared with the baseline."""
    winner, *others = ((compiler, best[compiler][0]) for compiler in sorted(best, key=lambda each: best[each][1]))
    return [(other, winner) for other in others if baseline not in (other, winner)]
