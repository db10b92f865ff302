"""Best time between two checkpoints of a training that is interrupted at random."""

from __future__ import annotations

import math


def young_interval(checkpoint_seconds: float, seconds_between_interruptions: float) -> float:
    """Return the first-order optimum: the work in seconds between two checkpoints, sqrt(2 C M).

    J. W. Young, A first order approximation to the optimum checkpoint interval, Communications of the ACM 17 (9), 1974.
    """
    return math.sqrt(2 * checkpoint_seconds * seconds_between_interruptions)


def daly_interval(checkpoint_seconds: float, seconds_between_interruptions: float) -> float:
    """Return the higher-order optimum: the work in seconds between two checkpoints.

    J. T. Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, Future Generation Computer
    Systems 22, 2006. It is M if a checkpoint takes 2 M or more. The time of a restart has no effect.
    """
    ratio = checkpoint_seconds / (2 * seconds_between_interruptions)
    if ratio >= 1:
        return seconds_between_interruptions
    first_order = young_interval(checkpoint_seconds, seconds_between_interruptions)
    return first_order * (1 + math.sqrt(ratio) / 3 + ratio / 9) - checkpoint_seconds
