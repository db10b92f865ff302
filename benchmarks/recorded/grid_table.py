"""A grid whose points were all trained, recorded as a table on which strategies are replayed.

A grid has three files: `NAME.csv` with a row for each evaluation and for each job's end, `NAME.calibration.csv` with a
row for each batch size, and `NAME.json` with the specification.
"""

from __future__ import annotations

import csv
import json
import math
import random
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from sweeps.cost_model.costs import Measurement, cost_model
from sweeps.cost_model.trials import Search
from sweeps.space.grid import Point, Space
from sweeps.space.objective import CurvePoint, Objective, Quality, TrialOutcome, excess, values_of

FOLDER = Path(__file__).resolve().parent / "grids"

COLUMNS = ("compiler", "batch_size", "multiplier", "seed", "samples", "value", "billable_seconds", "ended", "reached")


@dataclass(frozen=True, kw_only=True)
class GridRow:
    """One evaluation of a job, or its end. The row of the end has the last evaluation's value and the total cost."""

    compiler: str
    batch_size: int
    multiplier: float
    seed: int
    samples: int
    """Samples seen so far."""
    value: float
    billable_seconds: float
    """Seconds since the start of the job, including start-up and compilation."""
    ended: bool
    """True for the job's end, False for an evaluation."""
    reached: bool
    """True if the job has reached the target."""


@dataclass(frozen=True, kw_only=True)
class GridSpec:
    """Objective and constants of a grid."""

    metric: str
    higher_is_better: bool
    target: float | None
    bound: float | None = None
    samples: int
    """Samples of a full training."""
    base_batch_size: int
    fixed_seconds: float = 0.0
    """Billable seconds of the calibration job, without its steps."""
    evaluation_seconds: float = 0.0
    """Seconds of one evaluation."""
    eval_samples: float = math.inf
    """Samples between two evaluations."""
    calibration_seconds: Mapping[str, float] = field(default_factory=dict)
    """Billable seconds of each compiler's calibration."""
    parallel: int = 1
    """Jobs that ran at the same time. With more than one, equal jobs take different times."""
    machine: str = ""
    commit: str = ""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One job of the grid."""

    point: Point
    curve: tuple[CurvePoint, ...]
    ended: TrialOutcome


@dataclass(frozen=True, kw_only=True)
class Grid:
    """All jobs of one compiler."""

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
    """Return True if a job completed, reached its target and is within the bound."""
    return values_of(objective, run.ended) is not None and (excess(objective, run.ended) or 0.0) <= 0


def build_grid(spec: GridSpec, rows: Iterable[GridRow], calibration: Sequence[Measurement], compiler: str) -> Grid:
    """Return one compiler's grid, built from the rows of all compilers."""
    jobs: dict[tuple[Point, int], list[GridRow]] = defaultdict(list)
    for row in rows:
        if row.compiler == compiler:
            jobs[Point(row.batch_size, row.multiplier), row.seed].append(row)
    runs: dict[Point, list[Run]] = defaultdict(list)
    for (point, _), job_rows in sorted(jobs.items()):
        runs[point].append(_run(point, job_rows, spec))
    space = Space(
        batch_sizes=tuple(sorted({point.batch_size for point in runs})),
        multipliers=tuple(sorted({point.multiplier for point in runs})),
    )
    quality = Quality(metric=spec.metric, higher_is_better=spec.higher_is_better)
    search = Search(
        space=space,
        objective=Objective(cost="billable_seconds", quality=quality, target=spec.target, bound=spec.bound),
        samples=spec.samples,
        base=Point(spec.base_batch_size),
        costs=cost_model(
            calibration,
            calibration_seconds=spec.calibration_seconds.get(compiler, 0.0),
        )
        if calibration
        else None,
    )
    return Grid(search=search, runs=dict(runs), parallel=spec.parallel)


def _run(point: Point, rows: Sequence[GridRow], spec: GridSpec) -> Run:
    curve = tuple(
        CurvePoint(samples=row.samples, value=row.value, billable_instance_seconds=row.billable_seconds)
        for row in rows
        if not row.ended
    )
    end = next(row for row in rows if row.ended)
    out_of_memory = ("OutOfMemory", "recorded") if end.samples == 0 else None
    ended = TrialOutcome(
        failure=out_of_memory,
        billable_instance_seconds=end.billable_seconds,
        samples=end.samples,
        quality=end.value,
        reached=end.reached if spec.target is not None else None,
    )
    return Run(point=point, curve=curve, ended=ended)


def write(
    name: str,
    spec: GridSpec,
    rows: Sequence[GridRow],
    calibration: Mapping[str, Sequence[Measurement]],
    folder: Path = FOLDER,
) -> None:
    """Write the three files of a grid."""
    folder.mkdir(exist_ok=True, parents=True)
    _write_csv(folder / f"{name}.csv", COLUMNS, [asdict(row) for row in rows])
    measured = [{"compiler": compiler, **asdict(row)} for compiler, rows in calibration.items() for row in rows]
    columns = ("compiler", *(each.name for each in fields(Measurement)))
    _write_csv(folder / f"{name}.calibration.csv", columns, measured)
    (folder / f"{name}.json").write_text(json.dumps(asdict(spec), indent=1) + "\n")


def read(name: str, folder: Path = FOLDER) -> dict[str, Grid]:
    """Read the three files of a grid. Return one grid for each compiler."""
    spec = GridSpec(**json.loads((folder / f"{name}.json").read_text()))
    rows = [_row(cells) for cells in _read_csv(folder / f"{name}.csv")]
    calibration: dict[str, list[Measurement]] = defaultdict(list)
    for cells in _read_csv(folder / f"{name}.calibration.csv"):
        numbers = {each: float(cells[each]) for each in cells if each not in ("compiler", "batch_size", "fits")}
        measured = Measurement(batch_size=int(cells["batch_size"]), fits=cells["fits"] == "True", **numbers)
        calibration[cells["compiler"]].append(measured)
    compilers = dict.fromkeys(row.compiler for row in rows)
    return {compiler: build_grid(spec, rows, calibration[compiler], compiler) for compiler in compilers}


def _row(cells: Mapping[str, str]) -> GridRow:
    return GridRow(
        compiler=cells["compiler"],
        batch_size=int(cells["batch_size"]),
        multiplier=float(cells["multiplier"]),
        seed=int(cells["seed"]),
        samples=int(cells["samples"]),
        value=float(cells["value"]),
        billable_seconds=float(cells["billable_seconds"]),
        ended=cells["ended"] == "True",
        reached=cells["reached"] == "True",
    )


def _write_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)


def _read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
