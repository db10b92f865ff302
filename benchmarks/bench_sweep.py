"""Cost of a sweep that ends by itself, and excess of its choice, replayed on recorded grids.

The sampler of a sweep is compared with random search from the same starting points, with the same pruning and the same
rule for ending. The settings of the search were chosen on the grid `emotion`; the others are only reported.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean

from benchmarks.recorded.replay import Grid, names, read, replay, starts
from benchmarks.support.results import Row, figure, write

SEEDS = 3
"""Replays from each starting point of a grid."""
LEAST_GAIN = 0.05
"""Excess up to which a choice counts as right: a smaller gain is not worth having, see `compare.least_gain`."""


def replays(grid: Grid, sampler: str) -> tuple[list[float], list[float]]:
    """Return the costs and the excesses of `SEEDS` replays from every starting point."""
    points = starts(grid)
    numbered = [(start, seed * len(points) + at) for seed in range(SEEDS) for at, start in enumerate(points)]
    done = [replay(grid, sampler, start, number) for start, number in numbered]
    return [each.share(grid) for each in done], [each.excess(grid) for each in done]


def cost_until_right(shares: Sequence[float], excesses: Sequence[float]) -> float:
    """Return the mean cost of a sweep, plus the cost of the whole grid where the choice was wrong."""
    return fmean(share + (excess > LEAST_GAIN) for share, excess in zip(shares, excesses, strict=True))


def percentile_90(values: Sequence[float]) -> float:
    """Return the least value that 90 % do not exceed."""
    return sorted(values)[math.ceil(0.9 * len(values)) - 1]


def rows(name: str) -> Iterator[Row]:
    grid = read(name)
    shares, excesses = replays(grid, "auto")
    unit, n = "of the full grid", len(shares)
    yield figure(f"{name}: cost until the sweep's own end", fmean(shares), unit, most=0.35, n=n)
    yield figure(f"{name}: excess of the choice, mean", 100 * fmean(excesses), "%", most=3, n=n)
    yield figure(f"{name}: excess of the choice, 90th percentile", 100 * percentile_90(excesses), "%", most=8, n=n)
    label = f"{name}: cost until the choice is right"
    yield figure(label, cost_until_right(shares, excesses), unit, n=n)
    yield figure(f"{label}, random", cost_until_right(*replays(grid, "random")), unit, n=n)


if __name__ == "__main__":
    write("sweep", [row for name in names() for row in rows(name)])
