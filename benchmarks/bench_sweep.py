"""Cost of a sweep until its choice is right, replayed for our strategy, Optuna's TPE, random search and the full grid.

`python -m benchmarks.bench_sweep [NAME ...]` replays all recorded grids (see `record_grid`), or the named ones.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence

from benchmarks.recorded.grid_table import FOLDER, Grid, read
from benchmarks.recorded.replay import STRATEGIES, Replay
from benchmarks.support.results import Row, median_row, write

SEEDS = 20
MAX_OF_GRID = 0.25
MAX_OF_TPE = 0.5


def result_rows(name: str, grid: Grid) -> list[Row]:
    """Return the figures of one grid."""
    replays = {strategy: [replay(grid, seed) for seed in range(SEEDS)] for strategy, replay in STRATEGIES.items()}
    costs = {strategy: [each.cost_until_right(grid) for each in runs] for strategy, runs in replays.items()}
    full_grid, ours = grid.full_grid_seconds, statistics.median(costs["ours"])
    rows = [
        Row(name=f"{name}: cost of the full grid, {len(grid.runs)} points", value=full_grid, unit="billable s"),
        Row(name=f"{name}: cost of the best point", value=grid.best_cost, unit="billable s"),
    ]
    for strategy, seconds in costs.items():
        label = f"{name}: {strategy}, cost until the choice is within 2 % of the best"
        rows.append(median_row(label, seconds, "billable s"))
    tpe = statistics.median(costs["tpe"])
    rows += [
        Row(name=f"{name}: ours over the full grid", value=ours / full_grid, unit="x", n=SEEDS,
            target=f"at most {MAX_OF_GRID:g}", met=ours <= MAX_OF_GRID * full_grid),
        Row(name=f"{name}: ours over TPE", value=ours / tpe, unit="x", n=SEEDS,
            target=f"below {MAX_OF_TPE:g}", met=ours < MAX_OF_TPE * tpe),
    ]  # fmt: skip
    return [*rows, *_stopping_rows(name, grid, replays["ours"])]


def _stopping_rows(name: str, grid: Grid, replays: Sequence[Replay]) -> list[Row]:
    """Return the cost of sweeps that stop by themselves, the quality of their choices, and the points lost to pruning.

    A point is lost if pruning stopped a job of the best point.
    """
    ends = [len(each.costs) if each.ends_after is None else each.ends_after for each in replays]
    costs = [each.costs[end - 1] for each, end in zip(replays, ends, strict=True)]
    choices = [each.choices[end - 1] for each, end in zip(replays, ends, strict=True)]
    excess = [100 * (grid.cost(choice) / grid.best_cost - 1) for choice in choices if choice is not None]
    lost = sum(grid.cost(point) <= grid.best_cost for each in replays for point in each.pruned)
    return [
        median_row(f"{name}: ours, cost until it stops by itself", costs, "billable s"),
        median_row(f"{name}: ours, trials until it stops", [float(end) for end in ends], "trials"),
        median_row(f"{name}: ours, excess cost of the choice when it stops", excess, "%"),
        Row(name=f"{name}: ours, best points lost to pruning", value=lost, unit=f"of {len(replays)} sweeps",
            target="none", met=lost == 0),
    ]  # fmt: skip


def main(names: Sequence[str]) -> None:
    """Replay every strategy on every grid."""
    known = sorted(path.stem for path in FOLDER.glob("*.json"))
    if not known or (unknown := [name for name in names if name not in known]):
        sys.exit(
            f"error: unknown grid {', '.join(unknown)}: it must be one of {', '.join(known)}"
            if known
            else "error: no grid is recorded; run `python -m benchmarks.recorded.record_grid` first"
        )
    rows = [
        row
        for name in names or known
        for compiler, grid in read(name).items()
        for row in result_rows(f"{name}, {compiler}", grid)
    ]
    write(
        "sweep",
        rows,
        [
            "Replayed on grids in which every point was trained once, to its target (benchmarks/recorded/grids). The "
            "samplers and the pruning are the real ones; the results of jobs come from the table.",
            "Our strategy is deterministic, so its 20 sweeps differ in their start: the first begins at the "
            "experiment's batch size, the others at any. Their calibrations are drawn from the recorded intervals.",
            "Our cost includes the calibration and the time of pruned jobs. TPE and random are Optuna's defaults: they "
            "prune no job, and repeating a point costs them nothing. A choice that is never right costs the full "
            "grid.",
        ],
        is_part=bool(names),
    )


if __name__ == "__main__":
    main(sys.argv[1:])
