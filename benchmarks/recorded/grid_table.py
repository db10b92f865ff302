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

from sweeps.search_space import Point, Space
from sweeps.trials import CurvePoint, Objective, Quality, Search, TrialOutcome, values_of

FOLDER = Path(__file__).resolve().parent / "grids"


Cells = Mapping[str, Any]
"""Line of a table, by column: an evaluation of a job, or its end, whose `billable_seconds` include the whole job. A job
that ran out of memory ends at 0 `samples`."""


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
        """Lowest cost of any point."""
        return min(self.cost(point) for point in self.runs)

    @property
    def full_grid_seconds(self) -> float:
        """Billable seconds of training every point once."""
        return sum(statistics.fmean(run.ended.billable_instance_seconds for run in runs) for runs in self.runs.values())


def succeeded(objective: Objective, run: Run) -> bool:
    """Return True if a job completed and reached its target."""
    return values_of(objective, run.ended) is not None


def build_grid(spec: Mapping[str, Any], rows: Iterable[Cells]) -> Grid:
    """Return the grid of a specification and the lines of its table."""
    jobs: dict[tuple[Point, int], list[Cells]] = defaultdict(list)
    for row in rows:
        jobs[Point(int(row["batch_size"]), float(row["multiplier"])), int(row["seed"])].append(row)
    runs: dict[Point, list[Run]] = defaultdict(list)
    for (point, _), (*evaluations, end) in sorted(jobs.items()):
        runs[point].append(_run(point, evaluations, end))
    space = Space(
        batch_sizes=tuple(sorted({point.batch_size for point in runs})),
        multipliers=tuple(sorted({point.multiplier for point in runs})),
    )
    quality = Quality(metric=spec["metric"], higher_is_better=spec["higher_is_better"])
    objective = Objective(cost="billable_seconds", quality=quality, target=spec["target"])
    search = Search(space=space, objective=objective, samples=spec["samples"], base=Point(spec["base_batch_size"]))
    return Grid(search=search, runs=dict(runs), parallel=spec.get("parallel", 1))


def _run(point: Point, evaluations: Iterable[Cells], end: Cells) -> Run:
    curve = tuple(
        CurvePoint(
            samples=int(row["samples"]),
            value=float(row["value"]),
            billable_instance_seconds=float(row["billable_seconds"]),
        )
        for row in evaluations
    )
    samples = int(end["samples"])
    ended = TrialOutcome(
        failure=None if samples else ("OutOfMemory", "recorded"),
        billable_instance_seconds=float(end["billable_seconds"]),
        samples=samples,
        quality=float(end["value"]),
        reached=str(end["reached"]) == "True",
    )
    return Run(point=point, curve=curve, ended=ended)


def read(name: str) -> Grid:
    """Return the grid of a table."""
    with (FOLDER / f"{name}.csv").open(newline="") as file:
        return build_grid(json.loads((FOLDER / f"{name}.json").read_text()), csv.DictReader(file))


def names() -> list[str]:
    """Return the names of all tables."""
    return [path.stem for path in sorted(FOLDER.glob("*.json"))]
