"""Replay sweeps on a grid: sampler, pruning and end are the real ones, and the jobs' results come from the table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import optuna
from optuna.trial import FrozenTrial, Trial, TrialState

from benchmarks.recorded.grid_table import Grid, Run, succeeded
from experiments.schema.compare_fields import Sweep
from sweeps.early_stopping import choose, finalists
from sweeps.optuna_study import PointSampler, count_trials, distributions
from sweeps.search_space import Point
from sweeps.trial_queue import Part
from sweeps.trials import TrialOutcome, best_trial, cost_of, records
from sweeps.worker import attributes, seconds_of, trial_result

MAX_TRIALS: int = Sweep.model_fields["trials"].default
"""Trials after which a sweep ends at the latest."""
FINALISTS: int = Sweep.model_fields["finalists"].default
"""Most points that are trained a second time."""


@dataclass(frozen=True, kw_only=True)
class Replay:
    """A sweep that ended by itself."""

    seconds: float
    """Billable seconds of all trials and of the finalists' second trainings."""
    trials: int
    choice: Point | None
    """Best trial's point; None if no trial succeeded."""
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
    while not _has_ended(part, trials := study.get_trials(deepcopy=False)):
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
    return Replay(
        seconds=seconds,
        trials=len(trials),
        choice=choose(_costs(grid, second, seed)) or (best.point if best else None),
        pruned=tuple(pruned),
    )


def _costs(grid: Grid, second: Mapping[Point, Run], seed: int) -> dict[Point, list[float]]:
    """Return the costs of both trainings of each finalist; infinite without success."""

    def cost(run: Run) -> float:
        objective = grid.search.objective
        return cost_of(objective, run.ended) if succeeded(objective, run) else math.inf

    return {point: [cost(grid.draw(point, seed)), cost(run)] for point, run in second.items()}


def _has_ended(part: Part, trials: Sequence[FrozenTrial]) -> bool:
    return count_trials(trials) >= MAX_TRIALS or not part.free_points(trials) or part.stop_reason(trials) is not None


def _train(part: Part, earlier: Sequence[FrozenTrial], trial: Trial, run: Run) -> tuple[TrialOutcome, str | None]:
    """Replay a job's evaluations. Return its outcome, and the reason why it was stopped or None."""
    trial.set_user_attr("batch_size", run.point.batch_size)
    trial.set_user_attr("multiplier", run.point.multiplier)
    for number, evaluation in enumerate(run.curve, start=1):
        trial.report(evaluation.value, evaluation.samples)
        seconds = evaluation.billable_instance_seconds
        reason = part.should_prune(earlier, run.point, run.curve[:number], seconds)
        if reason and seconds < run.ended.billable_instance_seconds:
            trial.set_user_attr("seconds", seconds_of(run.curve[:number]))
            stopped = TrialOutcome(
                failure=("Stopped", reason),
                billable_instance_seconds=seconds,
                samples=evaluation.samples,
                quality=evaluation.value,
            )
            return stopped, reason
    trial.set_user_attr("seconds", seconds_of(run.curve))
    return run.ended, None


def starts(grid: Grid) -> tuple[Point, ...]:
    """Return the points that a sweep may start from: every batch size with the multiplier of the experiment."""
    return tuple(Point(size, grid.search.base.multiplier) for size in grid.search.space.batch_sizes)
