"""What a sweep pays until its choice is right: our strategy, Optuna's TPE, random search and the whole grid, replayed.

`python -m benchmarks.bench_sweep [NAME ...]` replays the recorded grids (see `record_grid`), or those named.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence

from benchmarks.recorded.grid_table import FOLDER, Grid, read
from benchmarks.recorded.replay import STRATEGIES, Replayed
from benchmarks.support.results import Row, measured, write

SEEDS = 20
OF_GRID = 0.25
OF_TPE = 0.5


def rows_of(name: str, grid: Grid) -> list[Row]:
    """Return the figures of one grid."""
    replays = {strategy: [replay(grid, seed) for seed in range(SEEDS)] for strategy, replay in STRATEGIES.items()}
    paid = {strategy: [each.paid_until(grid) for each in found] for strategy, found in replays.items()}
    whole, mine = grid.whole_seconds, statistics.median(paid["ours"])
    rows = [
        Row(name=f"{name}: whole grid, {len(grid.runs)} points", value=whole, unit="billable s"),
        Row(name=f"{name}: its best point", value=grid.best_cost, unit="billable s"),
    ]
    for strategy, seconds in paid.items():
        rows.append(measured(f"{name}: {strategy}, until its choice is within 2 %", seconds, "billable s"))
    tpe = statistics.median(paid["tpe"])
    rows += [
        Row(name=f"{name}: ours over the whole grid", value=mine / whole, unit="x", n=SEEDS,
            target=f"at most {OF_GRID:g}", met=mine <= OF_GRID * whole),
        Row(name=f"{name}: ours over TPE", value=mine / tpe, unit="x", n=SEEDS,
            target=f"below {OF_TPE:g}", met=mine < OF_TPE * tpe),
    ]  # fmt: skip
    return [*rows, *_ends(name, grid, replays["ours"])]


def _ends(name: str, grid: Grid, replays: Sequence[Replayed]) -> list[Row]:
    """Return what is paid where a sweep ends by itself, how good its choice is then, and what pruning lost."""
    ends = [len(each.paid) if each.ends_after is None else each.ends_after for each in replays]
    paid = [each.paid[end - 1] for each, end in zip(replays, ends, strict=True)]
    choices = [each.choices[end - 1] for each, end in zip(replays, ends, strict=True)]
    excess = [100 * (grid.cost(choice) / grid.best_cost - 1) for choice in choices if choice is not None]
    lost = sum(grid.cost(point) <= grid.best_cost for each in replays for point in each.pruned)
    return [
        measured(f"{name}: ours, paid when it ends by itself", paid, "billable s"),
        measured(f"{name}: ours, trials until then", [float(end) for end in ends], "trials"),
        measured(f"{name}: ours, its choice then above the best", excess, "%"),
        Row(name=f"{name}: ours, best points that were stopped", value=lost, unit=f"of {len(replays)} sweeps",
            target="none", met=lost == 0),
    ]  # fmt: skip


def main(names: Sequence[str]) -> None:
    """Replay every strategy on every grid."""
    known = sorted(path.stem for path in FOLDER.glob("*.json"))
    if not known or (unknown := [name for name in names if name not in known]):
        sys.exit(f"error: no such grid is recorded: {', '.join(unknown) if known else 'there is none'}")
    rows = [
        row
        for name in names or known
        for compiler, grid in read(name).items()
        for row in rows_of(f"{name}, {compiler}", grid)
    ]
    write(
        "sweep",
        rows,
        [
            "Replayed on grids whose every point was trained once, to its target (benchmarks/grids): the real samplers "
            "and the real pruning, the jobs answered from the table.",
            "Ours draws nothing: its 20 sweeps begin at any of the batch sizes, the first at the experiment's own, "
            "after calibrations drawn from their intervals.",
            "Ours pays for its calibration and for what stopped jobs had run. TPE and random are Optuna's defaults: "
            "they stop no job, and a point that they ask again costs them nothing. A choice that is never right costs "
            "the whole grid.",
        ],
        is_part=bool(names),
    )


if __name__ == "__main__":
    main(sys.argv[1:])
