"""Cost of a sweep that ends by itself, and excess of its choice, replayed on recorded grids and made-up surfaces.

`python -m benchmarks.bench_sweep`. The sampler of a sweep is compared with others from the same starting points, with
the same pruning and the same rule for ending. Its settings were chosen on the grid `emotion` and on the surfaces with
even numbers. All others are only reported.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.recorded.grid_table import FOLDER, Grid, read
from benchmarks.recorded.replay import replay, starts
from benchmarks.recorded.surfaces import FAMILIES, surface
from benchmarks.support.results import Row, write

SEEDS = 3
"""Replays from each starting point of a recorded grid. A surface has one."""
HELD_OUT = range(1, 11, 2)
"""Surfaces of each family on which no setting was chosen."""
MAX_SHARE, MAX_EXCESS, MAX_EXCESS_90 = 0.35, 0.03, 0.08
LEAST_GAIN = 0.05
"""Excess up to which a choice counts as right: a smaller gain is not worth having, see `compare.least_gain`."""


@dataclass(frozen=True)
class Score:
    """Shares of the full grid's cost and excesses of the choices, one of each for every replay."""

    shares: Sequence[float]
    excesses: Sequence[float]

    @property
    def share(self) -> float:
        """Mean cost until the sweep's own end."""
        return statistics.fmean(self.shares)

    @property
    def share_until_right(self) -> float:
        """Mean cost if whoever got a wrong choice trains the whole grid in addition."""
        pairs = zip(self.shares, self.excesses, strict=True)
        return statistics.fmean(share + (excess > LEAST_GAIN) for share, excess in pairs)

    @property
    def excess(self) -> float:
        """Mean excess of the choice; infinite if a sweep had none."""
        return statistics.fmean(self.excesses)

    @property
    def excess_90(self) -> float:
        """90th percentile of the excess: the least value that 90 % do not exceed."""
        return sorted(self.excesses)[math.ceil(0.9 * len(self.excesses)) - 1]


def score(grids: Sequence[Grid], sampler: str, seeds: int, *, is_calibrated: bool = False) -> Score:
    """Return the score of a sampler: `seeds` replays from every starting point of each grid."""
    replays = [
        (replay(grid, sampler, start, seed * len(starts(grid)) + at, is_calibrated=is_calibrated), grid)
        for grid in grids
        for seed in range(seeds)
        for at, start in enumerate(starts(grid))
    ]
    return Score([each.share(grid) for each, grid in replays], [each.excess(grid) for each, grid in replays])


def score_rows(name: str, grids: Sequence[Grid], seeds: int) -> Iterator[Row]:
    """Yield the rows of one recorded grid, or of the surfaces of one family."""
    ours = score(grids, "auto", seeds)
    n = len(ours.shares)
    yield Row(name=f"{name}: cost until the sweep's own end", value=ours.share, unit="of the full grid", n=n,
              target=f"at most {MAX_SHARE:g}", met=ours.share <= MAX_SHARE)  # fmt: skip
    yield Row(name=f"{name}: excess of the choice, mean", value=100 * ours.excess, unit="%", n=n,
              target=f"at most {100 * MAX_EXCESS:g} %", met=ours.excess <= MAX_EXCESS)  # fmt: skip
    yield Row(name=f"{name}: excess of the choice, 90th percentile", value=100 * ours.excess_90, unit="%", n=n,
              target=f"at most {100 * MAX_EXCESS_90:g} %", met=ours.excess_90 <= MAX_EXCESS_90)  # fmt: skip
    others = {"calibrated first": score(grids, "auto", seeds, is_calibrated=True),
              "random": score(grids, "random", seeds)}  # fmt: skip
    label = "cost until the choice is right"
    yield Row(name=f"{name}: {label}", value=ours.share_until_right, unit="of the full grid", n=n)
    for other, its in others.items():
        yield Row(name=f"{name}: {label}, {other}", value=its.share_until_right, unit="of the full grid", n=n)


def main() -> None:
    """Replay all samplers on all grids and surfaces."""
    rows = [row for path in sorted(FOLDER.glob("*.json")) for row in score_rows(path.stem, _recorded(path.stem), SEEDS)]
    for name, family in FAMILIES.items():
        rows += score_rows(f"surfaces, {name}", [surface(family, number) for number in HELD_OUT], 1)
    write(
        "sweep",
        rows,
        [
            "The recorded grids (benchmarks/recorded/grids) tweets-minilm and sst2-gpt2-small have two seeds at each "
            "point, the others one; made-up surfaces (benchmarks/recorded/surfaces.py) have five. A trial draws one "
            "seed, a finalist's second training another one, and the excess compares the means of all.",
            "Sweeps start from every batch size. Sampler, pruning, end and finalists are the real ones. The cost "
            "includes pruned trials, second trainings and, if there is one, the calibration.",
            f"Cost until the choice is right: a choice that is more than {100 * LEAST_GAIN:g} % dearer than the best "
            "costs the full grid in addition.",
            "The rule for ending was chosen on the grid emotion and on other surfaces than these.",
        ],
    )


def _recorded(name: str) -> list[Grid]:
    return list(read(name).values())


if __name__ == "__main__":
    main()
