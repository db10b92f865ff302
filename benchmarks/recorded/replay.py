"""Replay sweeps on a grid whose points were all trained. Sampler, pruning and end are the real ones.

`NAME.csv` has a row for each evaluation and for each job's end, and `NAME.json` the specification. The step times in
`NAME.calibration.csv` are not replayed: only searches for throughput calibrate first."""

from __future__ import annotations

import csv
import json
import math
import random
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import FrozenTrial, Trial, TrialState

from experiments.schema.fields import Sweep
from sweeps.early_stopping import choose, finalists
from sweeps.optuna_study import Part, PointSampler, count_trials, distributions
from sweeps.search_space import Point, Space
from sweeps.trials import (
    CurvePoint,
    Objective,
    Quality,
    Search,
    TrialOutcome,
    best_trial,
    cost_of,
    records,
    values_of,
)
from sweeps.worker import attributes, curve_text, trial_result
from training.contract.failures import Failure

FOLDER = Path(__file__).resolve().parent / "grids"


Cells = Mapping[str, Any]
"""Line of a table, by column: an evaluation of a job, or its end, whose `billable_seconds` include the whole job. A job
that ran out of memory ends at 0 `samples`."""
MAX_TRIALS: int = Sweep.model_fields["trials"].default
"""Trials after which a sweep ends at the latest."""
FINALISTS: int = Sweep.model_fields["finalists"].default
"""Most points that are trained a second time."""


@dataclass(frozen=True, kw_only=True)
class Run:
    point: Point
    curve: tuple[CurvePoint, ...]
    ended: TrialOutcome


@dataclass(frozen=True, kw_only=True)
class Grid:
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
            failure=None if samples else Failure("OutOfMemory", "recorded"),
            billable_instance_seconds=float(end["billable_seconds"]),
            samples=samples,
            quality=float(end["value"]),
            reached=str(end["reached"]) == "True",
        )
        runs[point].append(Run(point=point, curve=curve, ended=ended))
    space = Space(
        batch_sizes=tuple(sorted({point.batch_size for point in runs})),
        multipliers=tuple(sorted({point.multiplier for point in runs})),
    )
    quality = Quality(metric=spec["metric"], higher_is_better=spec["higher_is_better"])
    objective = Objective(cost="billable_seconds", quality=quality, target=spec["target"])
    search = Search(space=space, objective=objective, samples=spec["samples"], base=Point(spec["base_batch_size"]))
    return Grid(search=search, runs=dict(runs), parallel=spec.get("parallel", 1))


def read(name: str) -> Grid:
    with (FOLDER / f"{name}.csv").open(newline="") as file:
        return build_grid(json.loads((FOLDER / f"{name}.json").read_text()), csv.DictReader(file))


def reached_targets(exponent: float) -> tuple[int, int]:
    """Return how many batch sizes above the base reach the target in all of their jobs, and the number of these sizes.

    The rate grows with the batch size to the power of `exponent`; the nearest recorded one counts. The multipliers of a
    grid are factors on the linear rule.
    """
    reached = []
    for grid in map(read, names()):
        for size in grid.search.space.batch_sizes:
            if (factor := size / grid.search.base.batch_size) > 1:
                multipliers = grid.search.space.multipliers
                nearest = min(multipliers, key=lambda each: abs(math.log(each / factor ** (exponent - 1))))
                runs = grid.runs[Point(size, nearest)]
                reached.append(all(succeeded(grid.search.objective, run) for run in runs))
    return sum(reached), len(reached)


def names() -> list[str]:
    return [path.stem for path in sorted(FOLDER.glob("*.json"))]


@dataclass(frozen=True, kw_only=True)
class Replay:
    """A sweep that ended by itself."""

    seconds: float
    """Billable seconds of all trials and of the finalists' second trainings."""
    trials: int
    choice: Point | None
    """Best trial's point; None if no trial succeeded."""
    cost: float = math.inf
    """Cost of the choice: the geometric mean of both trainings of a finalist, or its trial's."""
    pruned: tuple[Point, ...] = ()
    """Points whose jobs were stopped."""

    def share(self, grid: Grid) -> float:
        """Return the cost of the sweep as a share of the full grid's."""
        return self.seconds / grid.full_grid_seconds

    def excess(self, grid: Grid) -> float:
        """Return by how much the choice is dearer than the best point, relative; infinite without a choice."""
        return math.inf if self.choice is None else grid.cost(self.choice) / grid.best_cost - 1


def replay(grid: Grid, sampler: str, start: Point, seed: int) -> Replay:
    """Replay a sweep from `start`. `seed` draws the sampler's numbers and the job of each point."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    search = replace(grid.search, base=start)
    study = optuna.create_study(directions=search.objective.directions, sampler=PointSampler(sampler, search, seed))
    part = Part(compiler="none", study=study, search=search)
    seconds, pruned = 0.0, list[Point]()
    while count_trials(trials := study.get_trials(deepcopy=False)) < MAX_TRIALS and part.free_points(trials):
        if part.stop_reason(trials) is not None:
            break
        trial = study.ask(distributions(search.space))
        point = search.space.point(trial.params)
        run = grid.draw(point, seed)
        ended, reason = _train(part, trials, trial, run)
        state, values, end = trial_result(search.objective, ended, reason)
        for name, value in {**attributes(ended), "end": end}.items():
            trial.set_user_attr(name, value)
        study.tell(trial, values, state)
        seconds += ended.billable_instance_seconds
        pruned += [point] if state is TrialState.PRUNED and reason else []
    known = records(trials, search.space)
    best = best_trial(search, known)
    second = {point: grid.draw_other(point, seed) for point in finalists(search, known, FINALISTS)}
    seconds += math.fsum(run.ended.billable_instance_seconds for run in second.values())

    def cost(run: Run) -> float:
        return cost_of(search.objective, run.ended) if succeeded(search.objective, run) else math.inf

    costs = {point: [cost(grid.draw(point, seed)), cost(run)] for point, run in second.items()}
    choice = choose(costs) or (best.point if best else None)
    of_choice = costs.get(choice) or [cost(grid.draw(choice, seed))] if choice else [math.inf]
    return Replay(
        seconds=seconds,
        trials=len(trials),
        choice=choice,
        cost=math.prod(of_choice) ** (1 / len(of_choice)),
        pruned=tuple(pruned),
    )


def _train(part: Part, earlier: Sequence[FrozenTrial], trial: Trial, run: Run) -> tuple[TrialOutcome, str | None]:
    """Replay a job's evaluations. Return its outcome, and the reason why it was stopped or None."""
    trial.set_user_attr("batch_size", run.point.batch_size)
    trial.set_user_attr("multiplier", run.point.multiplier)
    for number, evaluation in enumerate(run.curve, start=1):
        seconds = evaluation.billable_instance_seconds
        trial.report(seconds, evaluation.samples)
        reason = part.should_prune(earlier, run.point, run.curve[:number], seconds)
        if reason and seconds < run.ended.billable_instance_seconds:
            trial.set_user_attr("curve", curve_text(run.curve[:number]))
            stopped = TrialOutcome(
                failure=Failure("Stopped", reason),
                billable_instance_seconds=seconds,
                samples=evaluation.samples,
                quality=evaluation.value,
            )
            return stopped, reason
    trial.set_user_attr("curve", curve_text(run.curve))
    return run.ended, None


def starts(grid: Grid) -> tuple[Point, ...]:
    """Return the points that a sweep may start from: every batch size with the multiplier of the experiment."""
    return tuple(Point(size, grid.search.base.multiplier) for size in grid.search.space.batch_sizes)
