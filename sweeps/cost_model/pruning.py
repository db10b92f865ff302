"""Which running trial cannot win any more. Pure.

All is compared on the axis of samples, and bills only as wholes: a bill so far holds the trial's own start and compile,
and is held against whole bills that hold theirs. No moment of a young trial is compared with one of an old trial.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from sweeps.cost_model.curves import best_value, diverged, samples_to, seconds_per_sample, value_at
from sweeps.cost_model.estimates import goal
from sweeps.cost_model.trials import Record, Search, best
from sweeps.space.grid import Point
from sweeps.space.objective import CurvePoint, Quality

SLACK = 0.8
"""Share of the fewest samples that any trial needed from the same quality: this one may be quicker yet."""


def hopeless(
    search: Search,
    found: Sequence[Record],
    point: Point,
    curve: Sequence[CurvePoint],
    billable_instance_seconds: float,
) -> str | None:
    """Return the sentence why a running trial cannot win any more; None while it can.

    `curve` and `billable_instance_seconds` are the trial's so far. With two objectives nothing is stopped: a dear trial
    may be the best by its quality. Neither is it for throughput, where a trial is short.
    """
    if search.objective.is_front or search.objective.cost == "steady_samples_per_second":
        return None
    quality = search.objective.quality
    if quality is not None and diverged(quality, curve):
        return f"its {quality.metric} is {curve[-1].value:.4g} after {curve[0].value:.4g}: it diverged"
    others = [record for record in found if record.point != point]
    record = best(search, others)
    if record is None or record.ended is None:
        return None
    paid = record.ended.billable_instance_seconds
    if billable_instance_seconds * _price(search, others) >= paid * _price(search, [record]):
        seconds = f"{billable_instance_seconds:.4g} billable instance seconds"
        return f"{seconds} are no less than the {paid:.4g} of the best so far"
    aim = goal(search)
    if aim is None or not curve:
        return None
    if search.objective.target is None:
        return _beyond_bound(search, aim, others, curve)
    return _too_far(aim, others, curve, billable_instance_seconds, paid)


def _price(search: Search, found: Sequence[Record]) -> float:
    """Return what a billable second costs in the objective's currency, by the trials that tell; 1 where none does."""
    if search.objective.cost != "usd":
        return 1.0
    prices = [
        record.ended.usd / record.ended.billable_instance_seconds
        for record in found
        if record.ended and record.ended.usd and record.ended.billable_instance_seconds
    ]
    return statistics.median(prices) if prices else 1.0


def _too_far(
    aim: tuple[Quality, float],
    others: Sequence[Record],
    curve: Sequence[CurvePoint],
    billable_instance_seconds: float,
    paid: float,
) -> str | None:
    """Return why a trial cannot come to the target for less than was paid; None while it can.

    From its quality now, no trial came to the target in fewer than so many samples more; and at equal samples it is
    ahead of none that did. What a sample costs it tells itself, by its second evaluation: other trials ran at other
    moments of the machine.
    """
    quality, target = aim
    seconds = seconds_per_sample(curve)
    if not math.isfinite(seconds):
        return None
    reached = [record for record in others if record.ended and record.ended.reached and record.curve]
    more = fewest_more(quality, reached, best_value(quality, curve), target)
    least = billable_instance_seconds + SLACK * more * seconds
    if not math.isfinite(more) or least <= paid or not is_behind(quality, reached, curve):
        return None
    return (
        f"at {quality.metric} {curve[-1].value:.4g} after {curve[-1].samples:,} samples it needs at least "
        f"{SLACK * more:,.0f} more, {least:.4g} billable instance seconds in all; the best so far took {paid:.4g}"
    )


def _beyond_bound(
    search: Search, aim: tuple[Quality, float], others: Sequence[Record], curve: Sequence[CurvePoint]
) -> str | None:
    """Return why a trial cannot come within the bound by its end; None while it can.

    It is behind every trial that did at equal samples, further from the bound than any trial moved from there on, and
    from its quality now none did in so few samples as are left.
    """
    quality, bound = aim
    within = [record for record in others if record.state == "complete" and _is_within(quality, bound, record)]
    samples, value = curve[-1].samples, best_value(quality, curve)
    moves = [abs(record.curve[-1].value - value_at(record.curve, samples)) for record in others if record.curve]
    known = [move for move in moves if math.isfinite(move)]
    if not known or not within or not is_behind(quality, within, curve):
        return None
    left = search.samples - samples
    more = fewest_more(quality, within, value, bound)
    if abs(value - bound) <= max(known) / SLACK or quality.is_as_good(value, bound) or SLACK * more <= left:
        return None
    return (
        f"at {quality.metric} {value:.4g} after {samples:,} samples it is further from {bound:.4g} than any trial "
        f"moved in the {left:,} that are left"
    )


def _is_within(quality: Quality, bound: float, record: Record) -> bool:
    return record.ended is not None and bool(record.curve) and quality.is_as_good(record.ended.quality, bound)


def fewest_more(quality: Quality, reached: Sequence[Record], value: float, aim: float) -> float:
    """Return the fewest samples that any of the trials needed from `value` on to the aim; infinite where none tells.

    What a trial did before its first evaluation is not known: from there to `value` counts as nothing.
    """
    needed = [samples_to(quality, each.curve, aim) - samples_to(quality, each.curve, value) for each in reached]
    return min((max(each, 0.0) for each in needed if not math.isnan(each)), default=math.inf)


def is_behind(quality: Quality, others: Sequence[Record], curve: Sequence[CurvePoint]) -> bool:
    """Tell whether a curve, at its samples, is ahead of none of the others; where they had ended, it is behind."""
    value = best_value(quality, curve)
    return not any(
        quality.is_as_good(value, then)
        for other in others
        if not math.isnan(then := best_value(quality, other.curve, curve[-1].samples))
        and other.curve[-1].samples >= curve[-1].samples
    )
