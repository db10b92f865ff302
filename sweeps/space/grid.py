"""Search space of a sweep: batch sizes on a grid, and multipliers of the scaled learning rate. Pure.

By default the multipliers are a factor of 2 apart: a rate that is off by less than √2 costs little. On a grid,
equal points can be recognised, and no point is trained twice.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

BatchGrid = Literal["powers_of_two", "multiples_of_eight"]

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


@dataclass(frozen=True, kw_only=True)
class Space:
    """All points of a study: every batch size with every multiplier."""

    batch_sizes: tuple[int, ...]
    """Samples per device, ascending."""
    multipliers: tuple[float, ...] = (1.0,)
    """Ascending powers of two, or of a root of two."""
    grid: BatchGrid = "powers_of_two"
    """Grid of the batch sizes between the smallest and the largest."""
    per_octave: int = 1
    """Multipliers per factor of two."""

    @cached_property
    def points(self) -> tuple[Point, ...]:
        """Every point, ordered by batch size and then by multiplier."""
        return tuple(Point(size, factor) for size in self.batch_sizes for factor in self.multipliers)

    def params(self, point: Point) -> dict[str, Any]:
        """Return a point as Optuna's parameters: the batch size or its logarithm, and the multiplier's logarithm."""
        size = {"log2_batch_size": round(math.log2(point.batch_size))}
        if self.grid == "multiples_of_eight":
            size = {"batch_size": point.batch_size}
        exponent = round(math.log2(point.multiplier) * self.per_octave) / self.per_octave
        factor = {"log2_multiplier": exponent} if len(self.multipliers) > 1 else {}
        return {**size, **factor}

    def point(self, params: Mapping[str, Any]) -> Point:
        """Return the point for Optuna's parameters."""
        size = params.get("batch_size") or 2 ** int(params["log2_batch_size"])
        exponent = float(params.get("log2_multiplier", math.log2(self.multipliers[0])))
        return Point(int(size), min(self.multipliers, key=lambda each: abs(math.log2(each) - exponent)))


def space(batch_sizes: str, multipliers: str | None, grid: BatchGrid, per_octave: int) -> Space:
    """Return the space for ranges such as `8..256` and `0.25..4`. Raises ValueError for an invalid range."""
    sizes = _sizes(batch_sizes, grid)
    factors = _multipliers(multipliers, per_octave) if multipliers else (1.0,)
    if len(sizes) * len(factors) > MAX_POINTS:
        raise ValueError(
            f"batch_sizes {batch_sizes} and learning_rate_multipliers {multipliers} make {len(sizes) * len(factors):,} "
            f"points; a sweep has at most {MAX_POINTS:,}"
        )
    return Space(batch_sizes=sizes, multipliers=factors, grid=grid, per_octave=per_octave)


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


def _multipliers(text: str, per_octave: int) -> tuple[float, ...]:
    low, high = _bounds("learning_rate_multipliers", text)
    if low <= 0:
        raise ValueError(f"learning_rate_multipliers {text} must be above 0")
    first, last = (math.log2(bound) * per_octave for bound in (low, high))
    factors = tuple(2.0 ** (k / per_octave) for k in range(math.ceil(first - 1e-9), math.floor(last + 1e-9) + 1))
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
