"""A grid that was trained point by point, kept as a table: what strategies are replayed on.

Three files: `NAME.csv` with a row for each evaluation and one for each job's end, `NAME.calibration.csv` with a row for
each batch size, `NAME.json` with what was asked.
"""

from __future__ import annotations

import csv
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from sweeps.cost_model.costs import Measured, cost_model
from sweeps.cost_model.trials import Search
from sweeps.space.grid import Point, Space
from sweeps.space.objective import CurvePoint, Ended, Objective, Quality, cost_of, excess, values_of

FOLDER = Path(__file__).resolve().parent / "grids"

COLUMNS = ("compiler", "batch_size", "multiplier", "seed", "samples", "value", "billable_seconds", "ended", "reached")


@dataclass(frozen=True, kw_only=True)
class GridRow:
    """An evaluation of a job, or its end: then the last evaluation's value and the whole bill."""

    compiler: str
    batch_size: int
    multiplier: float
    seed: int
    samples: int
    """Seen until then."""
    value: float
    billable_seconds: float
    """Of its one instance, since the job began, start and compile included."""
    ended: bool
    reached: bool
    """Whether the target had been reached."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a grid was trained for."""

    metric: str
    higher_is_better: bool
    target: float | None
    bound: float | None = None
    samples: int
    """Of a whole training."""
    base_batch_size: int
    fixed_seconds: float = 0.0
    """Billable seconds of the calibration job beside its steps."""
    evaluation_seconds: float = 0.0
    eval_samples: float = math.inf
    """Samples between two evaluations."""
    calibration_seconds: Mapping[str, float] = field(default_factory=dict)
    """Bill of each compiler's calibration."""
    machine: str = ""
    commit: str = ""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One job of the grid."""

    point: Point
    curve: tuple[CurvePoint, ...]
    ended: Ended


@dataclass(frozen=True, kw_only=True)
class Grid:
    """All jobs of one compiler."""

    search: Search
    runs: Mapping[Point, Sequence[Run]]
    """Of each point, one for each seed."""

    def run(self, point: Point, seed: int) -> Run:
        """Return a point's job; which of its seeds, the replay's own seed tells."""
        found = self.runs[point]
        return found[seed % len(found)]

    def cost(self, point: Point) -> float:
        """Return the mean cost of a point; infinite where one of its jobs has none."""
        costs = [run_cost(self.search.objective, run) for run in self.runs[point]]
        return statistics.fmean(costs)

    @property
    def best_cost(self) -> float:
        """Least mean cost of any point."""
        return min(self.cost(point) for point in self.runs)

    @property
    def whole_seconds(self) -> float:
        """Billable seconds of every point trained once."""
        return sum(statistics.fmean(run.ended.billable_instance_seconds for run in runs) for runs in self.runs.values())


def run_cost(objective: Objective, run: Run) -> float:
    """Return a job's cost; infinite where it failed, did not reach the target or is beyond the bound."""
    if values_of(objective, run.ended) is None or (excess(objective, run.ended) or 0.0) > 0:
        return math.inf
    return cost_of(objective, run.ended)


def grid(asked: Asked, rows: Iterable[GridRow], calibration: Sequence[Measured], compiler: str) -> Grid:
    """Return a compiler's grid from its rows."""
    jobs: dict[tuple[Point, int], list[GridRow]] = defaultdict(list)
    for row in rows:
        if row.compiler == compiler:
            jobs[Point(row.batch_size, row.multiplier), row.seed].append(row)
    runs: dict[Point, list[Run]] = defaultdict(list)
    for (point, _), told in sorted(jobs.items()):
        runs[point].append(_run(point, told, asked))
    space = Space(
        batch_sizes=tuple(sorted({point.batch_size for point in runs})),
        multipliers=tuple(sorted({point.multiplier for point in runs})),
    )
    quality = Quality(metric=asked.metric, higher_is_better=asked.higher_is_better)
    search = Search(
        space=space,
        objective=Objective(cost="billable_seconds", quality=quality, target=asked.target, bound=asked.bound),
        samples=asked.samples,
        base=Point(asked.base_batch_size),
        costs=cost_model(
            calibration,
            fixed_seconds=asked.fixed_seconds,
            evaluation_seconds=asked.evaluation_seconds,
            samples_between_evaluations=asked.eval_samples,
            calibration_seconds=asked.calibration_seconds.get(compiler, 0.0),
        )
        if calibration
        else None,
    )
    return Grid(search=search, runs=dict(runs))


def _run(point: Point, told: Sequence[GridRow], asked: Asked) -> Run:
    curve = tuple(
        CurvePoint(samples=row.samples, value=row.value, billable_instance_seconds=row.billable_seconds)
        for row in told
        if not row.ended
    )
    end = next(row for row in told if row.ended)
    out_of_memory = ("OutOfMemory", "recorded") if end.samples == 0 else None
    ended = Ended(
        failure=out_of_memory,
        billable_instance_seconds=end.billable_seconds,
        samples=end.samples,
        quality=end.value,
        reached=end.reached if asked.target is not None else None,
    )
    return Run(point=point, curve=curve, ended=ended)


def write(
    name: str,
    asked: Asked,
    rows: Sequence[GridRow],
    calibration: Mapping[str, Sequence[Measured]],
    folder: Path = FOLDER,
) -> None:
    """Write the three files of a grid."""
    folder.mkdir(exist_ok=True, parents=True)
    _write_csv(folder / f"{name}.csv", COLUMNS, [asdict(row) for row in rows])
    known = [{"compiler": compiler, **asdict(row)} for compiler, rows in calibration.items() for row in rows]
    columns = ("compiler", *(each.name for each in fields(Measured)))
    _write_csv(folder / f"{name}.calibration.csv", columns, known)
    (folder / f"{name}.json").write_text(json.dumps(asdict(asked), indent=1) + "\n")


def read(name: str, folder: Path = FOLDER) -> dict[str, Grid]:
    """Return the grids of the three files, by compiler."""
    asked = Asked(**json.loads((folder / f"{name}.json").read_text()))
    rows = [_row(told) for told in _read_csv(folder / f"{name}.csv")]
    calibration: dict[str, list[Measured]] = defaultdict(list)
    for told in _read_csv(folder / f"{name}.calibration.csv"):
        numbers = {each: float(told[each]) for each in told if each not in ("compiler", "batch_size", "fits")}
        known = Measured(batch_size=int(told["batch_size"]), fits=told["fits"] == "True", **numbers)
        calibration[told["compiler"]].append(known)
    compilers = dict.fromkeys(row.compiler for row in rows)
    return {compiler: grid(asked, rows, calibration[compiler], compiler) for compiler in compilers}


def _row(told: Mapping[str, str]) -> GridRow:
    return GridRow(
        compiler=told["compiler"],
        batch_size=int(told["batch_size"]),
        multiplier=float(told["multiplier"]),
        seed=int(told["seed"]),
        samples=int(told["samples"]),
        value=float(told["value"]),
        billable_seconds=float(told["billable_seconds"]),
        ended=told["ended"] == "True",
        reached=told["reached"] == "True",
    )


def _write_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)


def _read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
