"""The row that compares the losses of two sides over several seeds."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.support.results import Row
from judging.intervals import paired_interval

TARGET = "not shown to be higher: the 95 % interval starts at or below 0"


def loss_row(name: str, ours: Sequence[float], theirs: Sequence[float], *, has_target: bool = True) -> Row | None:
    """Return the mean difference of the losses, in nats, of pairs with the same seed; None with fewer than two pairs.

    Its spread is half of the 95 % interval of the mean.
    """
    interval = paired_interval(ours, theirs)
    if interval is None:
        return None
    return Row(
        name=name,
        value=interval.estimate,
        unit="nats",
        spread=(interval.high - interval.low) / 2,
        n=len(ours),
        target=TARGET if has_target else None,
        met=interval.low <= 0 if has_target else None,
    )
