"""Replay strategies on a recorded grid: samplers and pruning are real, and the jobs' results come from the table."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import optuna
from optuna.samplers import BaseSampler, TPESampler
from optuna.trial import Trial, TrialState

from benchmarks.recorded.grid_table import Grid, Run, run_cost
from sweeps.cost_model.costs import Measurement, fit_line
from sweeps.cost_model.expected_improvement import stop_reason
from sweeps.cost_model.pruning import should_prune
from sweeps.cost_model.trials import Search, free_points, records
from sweeps.space.grid import Point
from sweeps.space.objective import TrialOutcome
from sweeps.study.sampler import make_sampler
from sweeps.study.study import distributions

MAX_RATIO = 1.02
"""A choice is right if its cost is at most this multiple of the best mean cost."""
MAX_REQUESTS_PER_POINT = 20
"""Limit on requests to a sampler that repeats points, per point of the grid."""


@dataclass(frozen=True, kw_only=True)
class Replay:
    """Costs and choices of a strategy after each trial."""

    costs: tuple[float, ...]
    """Billable seconds spent after each trial, ascending."""
    choices: tuple[Point | None, ...]
    """Best finished point after each trial."""
    ends_after: int | None
    """Number of trials after which a further one was not worth its cost; None if the sweep never stopped."""
    pruned: tuple[Point, ...]
    """Points whose jobs were pruned."""

    def cost_until_right(self, grid: Grid) -> float:
        """Return the cost until the choice was within 2 % of the best and stayed so.

        If this never happened, return the cost of the full grid, which would be needed to find the best.
        """
        right = [self.is_right(grid, number) for number in range(len(self.choices))]
        if not right or not right[-1]:
            return max(grid.full_grid_seconds, self.costs[-1] if self.costs else 0.0)
        wrong = [number for number, is_right in enumerate(right) if not is_right]
        return self.costs[wrong[-1] + 1 if wrong else 0]

    def is_right(self, grid: Grid, number: int) -> bool:
        """Return True if the choice after a trial is within 2 % of the best."""
        choice = self.choices[number]
        return choice is not None and grid.cost(choice) <= MAX_RATIO * grid.best_cost


def ours(grid: Grid, seed: int, name: str = "auto") -> Replay:
    """Replay our strategy, with a calibration, with pruning and without repeated points."""
    search = vary_start(grid.search, seed, starting_batch_sizes(grid))
    return _replay(grid, search, seed, make_sampler(name, search, seed), is_ours=True)


def uncalibrated(grid: Grid, seed: int) -> Replay:
    """Replay our strategy without a calibration."""
    search = replace(vary_start(grid.search, seed, starting_batch_sizes(grid)), costs=None)
    return _replay(grid, search, seed, make_sampler("auto", search, seed), is_ours=True)


def starting_batch_sizes(grid: Grid) -> tuple[int, ...]:
    """Return the batch sizes that a sweep may start from. If no size qualifies, return all of them.

    A sweep would not start from a batch size that diverges, so these reach the target at their scaled learning rate.
    """
    sizes, multiplier = grid.search.space.batch_sizes, grid.search.base.multiplier
    return tuple(size for size in sizes if math.isfinite(grid.cost(Point(size, multiplier)))) or sizes


def vary_start(search: Search, seed: int, sizes: Sequence[int] = ()) -> Search:
    """Return the search with a random starting batch size and a random calibration.

    The starting batch size is drawn from `sizes`, or from the whole search space if `sizes` is empty. Step times are
    drawn from their calibrated intervals. Our strategy is deterministic, so these are the only differences between
    sweeps. Seed 0 changes nothing: it starts at the experiment's batch size, with the recorded calibration.
    """
    generator = random.Random(seed)
    base = Point(generator.choice(sizes or search.space.batch_sizes), search.base.multiplier) if seed else search.base
    costs = search.costs
    if costs is None or not seed:
        return replace(search, base=base)
    measured = tuple(_remeasured(row, generator) for row in costs.measured)
    return replace(search, base=base, costs=replace(costs, measured=measured, line=fit_line(measured)))


def _remeasured(row: Measurement, generator: random.Random) -> Measurement:
    """Return the measurement of a batch size as a second calibration could have made it."""
    error = (row.high - row.low) / 2 / 1.96 / row.step_seconds
    factor = math.exp(generator.gauss(0, error if math.isfinite(error) else 0.0))
    return replace(
        row,
        step_seconds=row.step_seconds * factor,
        low=row.low * factor,
        high=row.high * factor,
        samples_per_second=row.samples_per_second / factor,
    )


def tpe(grid: Grid, seed: int) -> Replay:
    """Replay Optuna's default sampler. Every job runs to its end. A repeated point costs nothing."""
    return _replay(grid, grid.search, seed, TPESampler(seed=seed), is_ours=False)


def any_order(grid: Grid, seed: int) -> Replay:
    """Replay training the full grid in random order, which is random search without repeated points."""
    search = replace(grid.search, costs=None)
    return _replay(grid, search, seed, make_sampler("random", search, seed), is_ours=False)


def at_random(grid: Grid, seed: int) -> Replay:
    """Replay Optuna's random sampler. A repeated point costs nothing."""
    return _replay(grid, grid.search, seed, optuna.samplers.RandomSampler(seed=seed), is_ours=False)


STRATEGIES: Mapping[str, Callable[[Grid, int], Replay]] = {
    "ours": ours,
    "ours, not calibrated": uncalibrated,
    "tpe": tpe,
    "random": at_random,
    "grid": any_order,
}


def _replay(grid: Grid, search: Search, seed: int, sampler: BaseSampler, *, is_ours: bool) -> Replay:
    """Run a study whose jobs take their results from the table, until every point is tried."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(directions=search.objective.directions, sampler=sampler)
    spent = search.costs.calibration_seconds if search.costs and is_ours else 0.0
    tried: dict[Point, Run] = {}
    finished: dict[Point, Run] = {}
    costs, choices, pruned = list[float](), list[Point | None](), list[Point]()
    ends_after: int | None = None
    for _ in range(MAX_REQUESTS_PER_POINT * len(grid.runs)):
        earlier = records(study.get_trials(deepcopy=False), search.space)
        if len(tried) == len(grid.runs) or (is_ours and not free_points(search, earlier)):
            break
        if is_ours and ends_after is None and stop_reason(search, earlier):
            ends_after = len(costs)
        trial = study.ask(distributions(search.space))
        point = search.space.point(trial.params)
        run = grid.run(point, seed)
        job_seconds = _train(search, study, trial, point, run, is_ours=is_ours)
        spent += 0.0 if point in tried else job_seconds
        tried[point] = run
        if job_seconds < run.ended.billable_instance_seconds:
            pruned.append(point)
        elif math.isfinite(run_cost(search.objective, run)):
            finished[point] = run
        costs.append(spent)
        choices.append(min(finished, key=lambda each: run_cost(search.objective, finished[each]), default=None))
    return Replay(costs=tuple(costs), choices=tuple(choices), ends_after=ends_after, pruned=tuple(pruned))


def _train(search: Search, study: optuna.Study, trial: Trial, point: Point, run: Run, *, is_ours: bool) -> float:
    """Replay a job, pruning it if the strategy would. Report it to Optuna and return its billable seconds."""
    earlier = records(study.get_trials(deepcopy=False), search.space)
    trial.set_user_attr("batch_size", point.batch_size)
    trial.set_user_attr("multiplier", point.multiplier)
    for number, evaluation in enumerate(run.curve, start=1):
        if not is_ours:
            break
        trial.report(evaluation.value, evaluation.samples)
        curve, seconds = run.curve[:number], evaluation.billable_instance_seconds
        reason = should_prune(search, earlier, point, curve, seconds)
        if reason and seconds < run.ended.billable_instance_seconds:
            ended = TrialOutcome(
                billable_instance_seconds=seconds, samples=evaluation.samples, quality=evaluation.value
            )
            _end(study, trial, replace(run, curve=curve, ended=ended), f"pruned: {reason}", TrialState.PRUNED)
            return seconds
    cost = run_cost(search.objective, run)
    if run.ended.failure:
        _end(study, trial, run, f"failed: {run.ended.failure[0]}", TrialState.FAIL)
    elif not is_ours:
        # For Optuna's own samplers, a missed target is a very high cost. Only the order matters.
        study.tell(trial, cost if math.isfinite(cost) else 1e6 * run.ended.billable_instance_seconds)
    elif run.ended.reached is False:
        _end(study, trial, run, "not reached", TrialState.PRUNED)
    else:
        _end(study, trial, run, "completed", TrialState.COMPLETE, run.ended.billable_instance_seconds)
    return run.ended.billable_instance_seconds


def _end(study: optuna.Study, trial: Trial, run: Run, end: str, state: TrialState, value: float | None = None) -> None:
    seconds = {str(point.samples): point.billable_instance_seconds for point in run.curve}
    attrs = {
        "seconds": json.dumps(seconds),
        "billable_seconds": run.ended.billable_instance_seconds,
        "samples": run.ended.samples,
        "quality": run.ended.quality,
        "reached": run.ended.reached,
        "end": end,
    }
    for name, attribute in attrs.items():
        trial.set_user_attr(name, attribute)
    study.tell(trial, value, state)
