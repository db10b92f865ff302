"""Expected time of a training whose machines can be reclaimed at any time, as on spot capacity. Pure.

Interruptions are a Poisson process: they arrive at a constant rate while the training runs, also during its start-up
and while it writes a checkpoint. Each one loses everything since the last complete checkpoint and costs a new start-up.
For work that takes `a` seconds with its checkpoint, after a start-up of `s` seconds, J. T. Daly (A higher order
estimate of the optimum checkpoint interval for restart dumps, Future Generation Computer Systems 22, 2006)
gives an expected time of exp(rate s) (exp(rate a) - 1) / rate. The first part also includes the first start-up, so it
takes (exp(rate (s + a)) - 1) / rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

DEFAULT_PER_HOUR = 0.0003
"""Interruptions of one instance per hour, where nothing better is known. AWS's Spot Instance Advisor
(https://aws.amazon.com/ec2/spot/instance-advisor/) gives most instances a band of at most 20 % that were reclaimed in
the past month. Then 80 % survive 730 hours, and the rate is -ln(0.8) / 730. SageMaker publishes no rates of its own."""
LARGEST_EXPONENT = 700.0
"""Larger exponents overflow: a part that takes as many times the mean time between interruptions never ends."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """Times of an uninterrupted training on one kind of machine."""

    startup_seconds: float
    """Time from the start of the download to the first step that is as fast as later ones. Each restart takes as
    long."""
    work_seconds: float
    """Time of everything after the start-up, without checkpoints."""
    checkpoint_seconds: float = 0.0


def daly_interval(checkpoint_seconds: float, seconds_between_interruptions: float) -> float:
    """Return the best work in seconds between two checkpoints, about sqrt(2 C M) (Young 1974), by Daly's higher order.

    It is M if a checkpoint takes 2 M or more. The time of a restart has no effect.
    """
    ratio = checkpoint_seconds / (2 * seconds_between_interruptions)
    if ratio >= 1:
        return seconds_between_interruptions
    first_order = math.sqrt(2 * checkpoint_seconds * seconds_between_interruptions)
    return first_order * (1 + math.sqrt(ratio) / 3 + ratio / 9) - checkpoint_seconds


def expected_seconds(training: Training, rate_per_second: float, interval_seconds: float = math.inf) -> float:
    """Return the expected running time, without waits for capacity; infinity if the training would hardly ever end.

    A checkpoint follows every `interval_seconds` of work, which are positive, and the end. With an infinite interval,
    no checkpoint is written, and an interrupted training starts again from the beginning. `rate_per_second` is the rate
    at which the job is interrupted: on several machines, the rate of one machine times their number.
    """
    first, *others = _parts(training, interval_seconds)
    if rate_per_second <= 0:
        return training.startup_seconds + math.fsum([first, *others])
    restart = math.exp(min(rate_per_second * training.startup_seconds, LARGEST_EXPONENT))
    growths = [_growth(rate_per_second * (training.startup_seconds + first))]
    growths += [restart * _growth(rate_per_second * part) for part in others]
    return math.fsum(growths) / rate_per_second


def _parts(training: Training, interval_seconds: float) -> list[float]:
    """Return the seconds of each part of the work, with the checkpoint that ends it."""
    if math.isinf(interval_seconds):
        return [training.work_seconds]
    whole = math.floor(training.work_seconds / interval_seconds * (1 + 1e-9))
    rest = training.work_seconds - whole * interval_seconds
    # A rest that is only rounding is no part of its own.
    work = [interval_seconds] * whole + ([rest] if rest > 1e-9 * interval_seconds or not whole else [])
    return [seconds + training.checkpoint_seconds for seconds in work]


def _growth(exponent: float) -> float:
    return math.expm1(exponent) if exponent <= LARGEST_EXPONENT else math.inf
