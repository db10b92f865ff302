"""Search space of a sweep: batch sizes on a grid, and learning rates that scale with the batch size. Pure.

The multipliers of the scaled rate are a factor of 2 apart: a rate that is off by less than √2 costs little.
On a grid, equal points can be recognised, and no point is trained twice. Each scaling rule has its source and caveat.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, Literal

BatchGrid = Literal["powers_of_two", "multiples_of_eight"]
ScalingRule = Literal["linear", "sqrt", "sqrt_adam", "none"]
MAX_POINTS = 5_000
"""Largest number of points of a sweep. A larger space is treated as a typing error."""
_RANGE = re.compile(r"\s*([0-9.eE+-]+?)\s*\.\.\s*([0-9.eE+-]+)\s*")


@dataclass(frozen=True, order=True)
class Point:
    """Setting of one trial."""

    batch_size: int
    """Samples per device."""
    multiplier: float = 1.0
    """Factor on the learning rate of the scaling rule."""
    scaling: str = ""
    """Scaling rule of the learning rate; "" for the experiment's."""
    hyperparameters: str = ""
    """Searched hyperparameters of a script, as a JSON object."""

    @property
    def label(self) -> str:
        """Setting in words, such as `batch 64, rate × 2, warmup_ratio 0.1`."""
        rate = f", rate × {self.multiplier:.3g}" if self.multiplier != 1 else ""
        rate += f", {self.scaling}" if self.scaling else ""
        return f"batch {self.batch_size:g}{rate}" + "".join(f", {name} {value}" for name, value in self.chosen.items())

    @property
    def chosen(self) -> dict[str, Any]:
        """Values of the hyperparameters by name."""
        return dict(json.loads(self.hyperparameters)) if self.hyperparameters else {}


@dataclass(frozen=True, kw_only=True)
class Space:
    """All points of a study: every batch size with every multiplier and all values of the hyperparameters."""

    batch_sizes: tuple[int, ...]
    """Samples per device, ascending."""
    multipliers: tuple[float, ...] = (1.0,)
    """Ascending powers of two."""
    grid: BatchGrid = "powers_of_two"
    """Grid of the batch sizes between the smallest and the largest."""
    scalings: tuple[ScalingRule, ...] = ()
    """Scaling rules to search; empty for the experiment's alone."""
    unscaled_batch_size: int | None = None
    """Batch size at which all rules give the same rate, so that only the first one is trained."""
    hyperparameters: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    """Values of each searched hyperparameter of a script, by name."""

    @cached_property
    def points(self) -> tuple[Point, ...]:
        """Every point, ordered by batch size, by multiplier, by scaling rule, and by hyperparameters."""
        names, values = zip(*self.hyperparameters, strict=True) if self.hyperparameters else ((), ())
        return tuple(
            Point(size, factor, rule, json.dumps(chosen) if chosen else "")
            for size in self.batch_sizes
            for factor in self.multipliers
            for rule in dict.fromkeys(self.scaling_at(size, each) for each in self.scalings or ("",))
            for chosen in (dict(zip(names, each, strict=True)) for each in product(*values))
        )

    def scaling_at(self, batch_size: int, rule: str) -> str:
        """Return the rule that stands for `rule` at a batch size."""
        return self.scalings[0] if self.scalings and batch_size == self.unscaled_batch_size else rule

    def params(self, point: Point) -> dict[str, Any]:
        """Return a point as Optuna's parameters: the batch size or its logarithm, and the multiplier's logarithm."""
        size = {"log2_batch_size": round(math.log2(point.batch_size))}
        if self.grid == "multiples_of_eight":
            size = {"batch_size": point.batch_size}
        factor = {"log2_multiplier": round(math.log2(point.multiplier))} if len(self.multipliers) > 1 else {}
        scaling = {"learning_rate_scaling": point.scaling} if len(self.scalings) > 1 else {}
        chosen = {f"{name}_index": values.index(point.chosen[name]) for name, values in self.hyperparameters}
        return {**size, **factor, **scaling, **chosen}

    def point(self, params: Mapping[str, Any]) -> Point:
        size = int(params.get("batch_size") or 2 ** int(params["log2_batch_size"]))
        exponent = float(params.get("log2_multiplier", math.log2(self.multipliers[0])))
        factor = min(self.multipliers, key=lambda each: abs(math.log2(each) - exponent))
        rule = params.get("learning_rate_scaling", self.scalings[0] if self.scalings else "")
        chosen = {name: values[int(params[f"{name}_index"])] for name, values in self.hyperparameters}
        return Point(size, factor, self.scaling_at(size, rule), json.dumps(chosen) if chosen else "")


def space(
    batch_sizes: str,
    multipliers: str | None,
    grid: BatchGrid,
    scalings: tuple[ScalingRule, ...] = (),
    unscaled_batch_size: int | None = None,
    hyperparameters: tuple[tuple[str, tuple[Any, ...]], ...] = (),
) -> Space:
    """Return the space for ranges such as `8..256` and `0.25..4`. Raises ValueError for an invalid range."""
    sizes = _sizes(batch_sizes, grid)
    factors = _multipliers(multipliers) if multipliers else (1.0,)
    chosen = math.prod(len(values) for _, values in hyperparameters)
    if (count := len(sizes) * len(factors) * max(1, len(scalings)) * chosen) > MAX_POINTS:
        others = f", with {chosen:,} settings of hyperparameters," if hyperparameters else ""
        raise ValueError(
            f"batch_sizes {batch_sizes} and learning_rate_multipliers {multipliers}{others} make {count:,} "
            f"points; a sweep has at most {MAX_POINTS:,}"
        )
    unscaled = unscaled_batch_size if scalings else None
    return Space(
        batch_sizes=sizes,
        multipliers=factors,
        grid=grid,
        scalings=scalings,
        unscaled_batch_size=unscaled,
        hyperparameters=hyperparameters,
    )


def _sizes(text: str, grid: BatchGrid) -> tuple[int, ...]:
    low, high = _bounds("batch_sizes", text)
    if low != int(low) or high != int(high) or low < 1:
        raise ValueError(f"batch_sizes {text} must be a range of whole numbers, each at least 1, such as 8..64")
    if grid == "multiples_of_eight":
        sizes = tuple(range(-8 * (-int(low) // 8), int(high) + 1, 8))
    else:
        sizes = tuple(2**k for k in range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1))
    if not sizes:
        raise ValueError(f"batch_sizes {text} contains none of the {grid.replace('_', ' ')}: choose a wider range")
    return sizes


def _multipliers(text: str) -> tuple[float, ...]:
    low, high = _bounds("learning_rate_multipliers", text)
    if low <= 0:
        raise ValueError(f"learning_rate_multipliers {text} must be above 0")
    factors = tuple(2.0**k for k in range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1))
    if not factors:
        raise ValueError(f"learning_rate_multipliers {text} contains no power of two: choose a wider range")
    return factors


def _bounds(name: str, text: str) -> tuple[float, float]:
    match = _RANGE.fullmatch(text)
    try:
        low, high = (float(bound) for bound in match.groups()) if match else (float(text), float(text))
    except ValueError as error:
        raise ValueError(f"{name} {text!r} must be a range such as 8..256, or a number") from error
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError(f"{name} {text!r} must be a range of finite numbers")
    if low > high:
        raise ValueError(f"{name} {text} has no values: its lower end {low:g} is above its upper end {high:g}")
    return low, high


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


def linear_note(settings: Mapping[str, tuple[float, float]]) -> list[str]:
    """Return a sentence on settings whose batch size and learning rate are the same multiple, above 2, of the first's.

    `settings` are a global batch size and a peak rate, by label. The figures come from `reached_targets` in
    benchmarks/recorded/replay.py.
    """
    size, base_rate = next(iter(settings.values()), (1.0, 1.0))
    growth = {label: (own / size, rate / base_rate) for label, (own, rate) in settings.items()}
    grown = [label for label, (batch, rate) in growth.items() if batch > 2 and math.isclose(batch, rate, rel_tol=0.01)]
    note = (
        "the learning rate grows as much as the batch size (learning_rate_scaling: linear), but with AdamW on recorded "
        "grids, only 3 of 16 larger batches reached the target in this way, and 7 with a rate near the square root "
        "(learning_rate_scaling: sqrt)."
    )
    return [f"{' and '.join(grown)}: {note}"] if grown else []
