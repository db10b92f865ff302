"""A grid whose points were all trained, recorded as a table on which strategies are replayed.

`NAME.csv` has a row for each evaluation and for each job's end, and `NAME.json` the specification. The step times in
`NAME.calibration.csv` are not replayed: only searches for throughput calibrate first.
"""

from __future__ import annotations

import csv
import json
import math
import random
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeps.cost_model.trials import Search
from sweeps.space.grid import Point, Space
from sweeps.space.objective import CurvePoint, Objective, Quality, TrialOutcome, values_of

FOLDER = Path(__file__).resolve().parent / "grids"


@dataclass(frozen=True, kw_only=True)
class GridRow:
    """One evaluation of a job, or its end. The row of the end has the last evaluation's value and the total cost."""

    batch_size: int
    multiplier: float
    seed: int
    samples: int
    """Samples seen so far; 0 at the end of a job that ran out of memory."""
    value: float
    billable_seconds: float
    """Seconds since the start of the job, including start-up and compilation."""
    ended: bool
    """True for the job's end, False for an evaluation."""
    reached: bool
    """True if the job has reached the target."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One job of the grid."""

    point: Point
    curve: tuple[CurvePoint, ...]
    ended: TrialOutcome


@dataclass(frozen=True, kw_only=True)
class Grid:
    """All jobs of a grid."""

    search: Search
    runs: Mapping[Point, Sequence[Run]]
    """Jobs of each point, one for each seed."""
    parallel: int = 1
    """Jobs that ran at the same time."""

    def draw(self, point: Point, seed: int) -> Run:
        """Return one of a point's jobs, which follows from `seed`: the result of a trial with that seed."""
        return random.Random(f"{seed} {point}").choice(self.runs[point])

    def draw_other(self, point: Point, seed: int) -> Run:
        """Return another job of a point than `draw`: the result of a second training; the same if there is only one."""
        others = [run for run in self.runs[point] if run is not self.draw(point, seed)]
        return random.Random(f"{seed} {point} again").choice(others or self.runs[point])

    def cost(self, point: Point) -> float:
        """Return the mean cost of a successful job of a point, which includes the cost of its jobs without success.

        Infinite if none succeeded, see `succeeded`.
        """
        runs = self.runs[point]
        successes = sum(succeeded(self.search.objective, run) for run in runs)
        paid = math.fsum(run.ended.billable_instance_seconds for run in runs)
        return paid / successes if successes else math.inf

    @property
    def best_cost(self) -> float:
        """Lowest mean cost of any point."""
        return min(self.cost(point) for point in self.runs)

    @property
    def full_grid_seconds(self) -> float:
        """Billable seconds of training every point once."""
        return sum(statistics.fmean(run.ended.billable_instance_seconds for run in runs) for runs in self.runs.values())


def succeeded(objective: Objective, run: Run) -> bool:
    """Return True if a job completed and reached its target."""
    return values_of(objective, run.ended) is not None


def build_grid(spec: Mapping[str, Any], rows: Iterable[GridRow]) -> Grid:
    """Return the grid of a specification and its rows."""
    jobs: dict[tuple[Point, int], list[GridRow]] = defaultdict(list)
    for row in rows:
        jobs[Point(row.batch_size, row.multiplier), row.seed].append(row)
    runs: dict[Point, list[Run]] = defaultdict(list)
    for (point, _), job_rows in sorted(jobs.items()):
        runs[point].append(_run(point, job_rows))
    space = Space(
        batch_sizes=tuple(sorted({point.batch_size for point in runs})),
        multipliers=tuple(sorted({point.multiplier for point in runs})),
    )
    quality = Quality(metric=spec["metric"], higher_is_better=spec["higher_is_better"])
    objective = Objective(cost="billable_seconds", quality=quality, target=spec["target"])
    search = Search(space=space, objective=objective, samples=spec["samples"], base=Point(spec["base_batch_size"]))
    return Grid(search=search, runs=dict(runs), parallel=spec.get("parallel", 1))


def _run(point: Point, rows: Sequence[GridRow]) -> Run:
    curve = tuple(
        CurvePoint(samples=row.samples, value=row.value, billable_instance_seconds=row.billable_seconds)
        for row in rows
        if not row.ended
    )
    end = next(row for row in rows if row.ended)
    ended = TrialOutcome(
        failure=("OutOfMemory", "recorded") if end.samples == 0 else None,
        billable_instance_seconds=end.billable_seconds,
        samples=end.samples,
        quality=end.value,
        reached=end.reached,
    )
    return Run(point=point, curve=curve, ended=ended)


def read(name: str, folder: Path = FOLDER) -> Grid:
    """Return the grid of a table."""
    with (folder / f"{name}.csv").open(newline="") as file:
        rows = [
            GridRow(
                batch_size=int(cells["batch_size"]),
                multiplier=float(cells["multiplier"]),
                seed=int(cells["seed"]),
                samples=int(cells["samples"]),
                value=float(cells["value"]),
                billable_seconds=float(cells["billable_seconds"]),
                ended=cells["ended"] == "True",
                reached=cells["reached"] == "True",
            )
            for cells in csv.DictReader(file)
        ]
    return build_grid(json.loads((folder / f"{name}.json").read_text()), rows)


def names() -> list[str]:
    """Return the names of all tables."""
    return [path.stem for path in sorted(FOLDER.glob("*.json"))]
