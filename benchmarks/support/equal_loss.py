"""The row that compares the losses of two sides over several seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from benchmarks.support.results import Row
from judging.intervals import paired_interval


def loss_row(name: str, ours: Sequence[float], theirs: Sequence[float], *, has_target: bool = True) -> Row | None:
    """Return the mean difference of the losses, in nats, of pairs with the same seed; None with fewer than two pairs.

    The target is that ours are not shown to be higher: the 95 % interval of the mean starts at or below 0.
    """
    interval = paired_interval(ours, theirs)
    if interval is None:
        return None
    row = Row(name=name, value=interval.estimate, unit="nats", n=len(ours))
    limits = f"{interval.low:.3f} to {interval.high:.3f}"
    text = f"not shown to be higher: the 95 % interval, {limits}, starts at or below 0"
    return replace(row, target=text, met=interval.low <= 0) if has_target else row
