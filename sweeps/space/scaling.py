"""Rules that scale the optimiser's settings with the batch size, each with its source and its caveat. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

ScalingRule = Literal["linear", "sqrt", "sqrt_adam", "none"]


@dataclass(frozen=True, kw_only=True)
class Optimiser:
    """AdamW's settings that depend on the batch size."""

    learning_rate: float
    """Peak learning rate, per step."""
    adam_beta1: float
    """Decay of the first moment, in [0, 1), per step."""
    adam_beta2: float
    """Decay of the second moment, in [0, 1), per step."""
    adam_epsilon: float
    """Term added to the square root of the second moment, in units of the gradient."""


def linear(base: Optimiser, factor: float) -> Optimiser:
    """Scale the learning rate in proportion to the batch size.

    Source: Goyal et al. 2017, "Accurate, Large Minibatch SGD", arXiv:1706.02677, section 2.1. Caveat: derived for SGD
    with warm-up, and valid up to some batch size. For Adam, the rate becomes too large at large factors.
    """
    return replace(base, learning_rate=base.learning_rate * factor)


def sqrt(base: Optimiser, factor: float) -> Optimiser:
    """Scale the learning rate with the square root of the batch size, and keep the other settings.

    Source: Krizhevsky 2014, "One weird trick", arXiv:1404.5997, section 5 (keeps the variance of a step's gradient
    noise). Caveat: only half of the rule for Adam; the moments average over more samples as the batch grows.
    """
    return replace(base, learning_rate=base.learning_rate * math.sqrt(factor))


def sqrt_adam(base: Optimiser, factor: float) -> Optimiser:
    """Scale all of Adam's settings: learning rate by sqrt(k), 1 - beta by k, epsilon by 1 / sqrt(k).

    Source: Malladi et al. 2022, "On the SDEs and Scaling Rules for Adaptive Gradient Algorithms", arXiv:2205.10287,
    definition 5.2. Caveat: valid while gradient noise outweighs the gradient and k (1 - beta) stays well below 1.
    A beta that would become negative is set to 0, where the rule no longer holds.
    """
    return Optimiser(
        learning_rate=base.learning_rate * math.sqrt(factor),
        adam_beta1=_scaled_beta(base.adam_beta1, factor),
        adam_beta2=_scaled_beta(base.adam_beta2, factor),
        adam_epsilon=base.adam_epsilon / math.sqrt(factor),
    )


def none(base: Optimiser, factor: float) -> Optimiser:
    """Scale nothing. Caveat: at a larger batch size, the model then learns less from the same number of samples."""
    return base


def _scaled_beta(beta: float, factor: float) -> float:
    """Return 1 - factor (1 - beta), clipped to [0, 1)."""
    largest_below_one = math.nextafter(1.0, 0.0)
    return min(max(1.0 - factor * (1.0 - beta), 0.0), largest_below_one)


_RULES: dict[str, Callable[[Optimiser, float], Optimiser]] = {
    "linear": linear,
    "sqrt": sqrt,
    "sqrt_adam": sqrt_adam,
    "none": none,
}


def scale(
    rule: ScalingRule,
    base: Optimiser,
    *,
    base_batch_size: int,
    global_batch_size: int,
    multiplier: float = 1.0,
    largest_learning_rate: float | None = None,
) -> Optimiser:
    """Scale settings that were chosen for `base_batch_size` to `global_batch_size` (both in samples).

    `multiplier` is a factor on the rule's learning rate. The product is limited to `largest_learning_rate`: the length
    of Adam's step is about its rate, whatever the gradient (Kingma and Ba 2015, "Adam", arXiv:1412.6980, section 2.1).
    So beyond some rate fine-tuning diverges at any batch size, and no scaling rule takes this into account.
    """
    if base_batch_size < 1 or global_batch_size < 1:
        raise ValueError(f"batch sizes must be at least 1, not {base_batch_size} and {global_batch_size}")
    scaled = _RULES[rule](base, global_batch_size / base_batch_size)
    rate = scaled.learning_rate * multiplier
    return replace(scaled, learning_rate=rate if largest_learning_rate is None else min(rate, largest_learning_rate))
