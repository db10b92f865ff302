"""Cost of a sweep that ends by itself, and excess of its choice, replayed on recorded grids.

The sampler of a sweep is compared with random search from the same starting points, with the same pruning and the same
rule for ending. The settings of the search were chosen on the grid `emotion`; the others are only reported.

On made-up surfaces of two compilers, the compiler of the cheapest trials is compared with the verdict of the repeats.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from benchmarks.recorded.replay import Grid, names, read, replay, starts
from benchmarks.recorded.surfaces import COMPILERS, FAMILIES, START, Family, Surface, surface
from benchmarks.support.results import Row, figure, write
from judging.design import Design
from judging.result import Result
from judging.waves import Job, Progress, progress
from sweeps.early_stopping import Setting, rivals, settings

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


SURFACES = 200
"""Surfaces of each family."""
FIRST_SURFACE = 20261128
LARGE_GAIN = 0.10
"""True difference between the compilers from which a verdict should be given."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Two compilers after a sweep."""

    is_right: bool
    """True if the winner of the trials has the compiler of the truly cheapest setting."""
    gap: float
    """True cost of the dearer compiler's cheapest setting, over the other's, minus 1."""
    shown: bool | None
    """True or False if the repeats show the right or the wrong compiler to be cheaper; None if they show neither."""
    jobs: tuple[int, int]
    """Repeats for the verdicts against the base alone, and with the verdict between the compilers."""


def choice(drawn: Surface, seed: int) -> Choice | None:
    """Return the choice of a sweep on a surface; None unless a trial of both compilers succeeded."""
    done = {compiler: replay(drawn.grids[compiler], "auto", START, seed) for compiler in COMPILERS}
    best = {compiler: (each.choice, each.cost) for compiler, each in done.items() if each.choice}
    if len(best) < len(COMPILERS):
        return None
    ranked = sorted(best, key=lambda compiler: best[compiler][1])
    cheapest = min(COMPILERS, key=drawn.true_costs.__getitem__)
    repeated = settings(best, (COMPILERS[0], START))
    winner, other = ((compiler, best[compiler][0]) for compiler in ranked)
    _, before = waves(drawn, [repeated])
    states, after = waves(drawn, [repeated, *rivals(best, (COMPILERS[0], START))])
    arm, is_winner = (other, False) if winner == repeated[0] else (winner, True)
    look = next((each[str(arm)] for each in reversed(states[-1].looks) if str(arm) in each), None)
    outcome = look.cost_outcome if look else "undecided"
    better = {"undecided": None, "cheaper": arm, "dearer": other if is_winner else winner}[outcome]
    shown = better[0] == cheapest if better else None
    low, high = sorted(drawn.true_costs.values())
    return Choice(is_right=ranked[0] == cheapest, gap=high / low - 1, shown=shown, jobs=(before, after))


def waves(drawn: Surface, comparisons: Sequence[Sequence[Setting]]) -> tuple[list[Progress], int]:
    """Return the progress of each comparison after all waves, and the number of jobs that they ran together."""
    by_label = {str(setting): setting for each in comparisons for setting in each}
    results: dict[Job, Result | None] = {}
    while True:
        states = [progress(Design(), [*map(str, each)], results) for each in comparisons]
        due = [job for state in states for job in state.due]
        if not due:
            return states, len(results)
        for label, repeat in due:
            cost = drawn.repeats[by_label[label]][repeat]
            results[label, repeat] = Result(cost or 0.0, succeeded=cost is not None, repeat=repeat)


def compiler_rows(name: str, family: Family) -> Iterator[Row]:
    seeds = range(FIRST_SURFACE, FIRST_SURFACE + SURFACES)
    done = [each for seed in seeds if (each := choice(surface(family, seed), seed))]
    large = [each for each in done if each.gap >= LARGE_GAIN]

    def row(label: str, values: Sequence[bool], most: float | None = None) -> Row:
        return figure(f"compilers {name}: {label}", 100 * fmean(values), "%", most=most, n=len(values))

    yield row("the cheapest trials have the wrong one", [not each.is_right for each in done])
    yield row("the wrong one is shown to be cheaper", [each.shown is False for each in done], most=5)
    yield row("no difference is shown", [each.shown is None for each in done])
    label = f"the right one is shown, true difference of {100 * LARGE_GAIN:g} % or more"
    yield row(label, [each.shown is True for each in large])
    for at, judged in enumerate(("against the base alone", "and between the compilers")):
        label = f"compilers {name}: repeats with verdicts {judged}"
        yield figure(label, fmean(each.jobs[at] for each in done), "jobs", n=len(done))


if __name__ == "__main__":
    found = [row for name in names() for row in rows(name)]
    write("sweep", found + [row for name, family in FAMILIES.items() for row in compiler_rows(name, family)])
