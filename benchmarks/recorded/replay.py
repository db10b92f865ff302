"""Replay strategies on a recorded grid: real samplers and real pruning, with the jobs' results from the table."""

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

WITHIN = 1.02
"""Largest ratio of a right choice's cost to the best mean cost."""
MAX_REQUESTS = 20
"""Limit on requests to a sampler that repeats itself, as a multiple of the number of points."""


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """Costs and choices of a strategy after each trial."""

    costs: tuple[float, ...]
    """Billable seconds spent after each trial, ascending."""
    choices: tuple[Point | None, ...]
    """Best finished point after each trial."""
    ends_after: int | None
    """Number of trials after which no further one was worth its price; None if that never happened."""
    pruned: tuple[Point, ...]
    """Points whose jobs were pruned."""

    def cost_until_right(self, grid: Grid) -> float:
        """Return the cost until the choice was within 2 % of the best and stayed so.

        If that never happened, return the cost of the full grid: only training all of it would give the answer.
        """
        right = [self.is_right(grid, number) for number in range(len(self.choices))]
        if not right or not right[-1]:
            return max(grid.whole_seconds, self.costs[-1] if self.costs else 0.0)
        wrong = [number for number, each in enumerate(right) if not each]
        return self.costs[wrong[-1] + 1 if wrong else 0]

    def is_right(self, grid: Grid, number: int) -> bool:
        """Return True if the choice after a trial is within 2 % of the best."""
        choice = self.choices[number]
        return choice is not None and grid.cost(choice) <= WITHIN * grid.best_cost


def ours(grid: Grid, seed: int, name: str = "auto") -> Replayed:
    """Replay our strategy: calibrated, with pruning, no point twice."""
    search = varied(grid.search, seed, suited(grid))
    return _replay(grid, search, seed, make_sampler(name, search, seed), is_ours=True)


def uncalibrated(grid: Grid, seed: int) -> Replayed:
    """Replay our strategy without a calibration."""
    search = replace(varied(grid.search, seed, suited(grid)), costs=None)
    return _replay(grid, search, seed, make_sampler("auto", search, seed), is_ours=True)


def suited(grid: Grid) -> tuple[int, ...]:
    """Return the batch sizes that reach the target at the learning rate scaled for them; if none does, return all.

    A sweep would not start from a batch size that diverges.
    """
    sizes, multiplier = grid.search.space.batch_sizes, grid.search.base.multiplier
    return tuple(size for size in sizes if math.isfinite(grid.cost(Point(size, multiplier)))) or sizes


def varied(search: Search, seed: int, sizes: Sequence[int] = ()) -> Search:
    """Return the search with another starting batch size and another calibration.

    `sizes` are the possible starting batch sizes; if empty, all of the search space. Our strategy is deterministic, so
    these are the only differences between sweeps. Seed 0 starts at the experiment's batch size with the recorded
    calibration. Other seeds draw the step times from their intervals.
    """
    chance = random.Random(seed)
    base = Point(chance.choice(sizes or search.space.batch_sizes), search.base.multiplier) if seed else search.base
    costs = search.costs
    if costs is None or not seed:
        return replace(search, base=base)
    measured = tuple(_remeasured(row, chance) for row in costs.measured)
    return replace(search, base=base, costs=replace(costs, measured=measured, line=fit_line(measured)))


def _remeasured(row: Measurement, chance: random.Random) -> Measurement:
    """Return a batch size with a step time that another calibration could have measured."""
    error = (row.high - row.low) / 2 / 1.96 / row.step_seconds
    factor = math.exp(chance.gauss(0, error if math.isfinite(error) else 0.0))
    return replace(
        row,
        step_seconds=row.step_seconds * factor,
        low=row.low * factor,
        high=row.high * factor,
        samples_per_second=row.samples_per_second / factor,
    )


def tpe(grid: Grid, seed: int) -> Replayed:
    """Replay Optuna's default sampler. Every job runs to its end, and repeating a point costs nothing."""
    return _replay(grid, grid.search, seed, TPESampler(seed=seed), is_ours=False)


def any_order(grid: Grid, seed: int) -> Replayed:
    """Replay training of the full grid in random order: random search without repeats."""
    search = replace(grid.search, costs=None)
    return _replay(grid, search, seed, make_sampler("random", search, seed), is_ours=False)


def at_random(grid: Grid, seed: int) -> Replayed:
    """Replay Optuna's random sampler. Repeating a point costs nothing."""
    return _replay(grid, grid.search, seed, optuna.samplers.RandomSampler(seed=seed), is_ours=False)


STRATEGIES: Mapping[str, Callable[[Grid, int], Replayed]] = {
    "ours": ours,
    "ours, not calibrated": uncalibrated,
    "tpe": tpe,
    "random": at_random,
    "grid": any_order,
}


def _replay(grid: Grid, search: Search, seed: int, sampler: BaseSampler, *, is_ours: bool) -> Replayed:
    """Ask the sampler, answer from the table and tell Optuna, until every point is known."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(directions=search.objective.directions, sampler=sampler)
    spent = search.costs.calibration_seconds if search.costs and is_ours else 0.0
    tried: dict[Point, Run] = {}
    finished: dict[Point, Run] = {}
    costs, choices, pruned = list[float](), list[Point | None](), list[Point]()
    ends_after: int | None = None
    for _ in range(MAX_REQUESTS * len(grid.runs)):
        earlier = records(study.get_trials(deepcopy=False), search.space)
        if len(tried) == len(grid.runs) or (is_ours and not free_points(search, earlier)):
            break
        if is_ours and ends_after is None and stop_reason(search, earlier):
            ends_after = len(costs)
        trial = study.ask(distributions(search.space))
        point = search.space.point(trial.params)
        run = grid.run(point, seed)
        bill = _train(search, study, trial, point, run, is_ours=is_ours)
        spent += 0.0 if point in tried else bill
        tried[point] = run
        if bill < run.ended.billable_instance_seconds:
            pruned.append(point)
        elif math.isfinite(run_cost(search.objective, run)):
            finished[point] = run
        costs.append(spent)
        choices.append(min(finished, key=lambda each: run_cost(search.objective, finished[each]), default=None))
    return Replayed(costs=tuple(costs), choices=tuple(choices), ends_after=ends_after, pruned=tuple(pruned))


def _train(search: Search, study: optuna.Study, trial: Trial, point: Point, run: Run, *, is_ours: bool) -> float:
    """Run a job as the table records it, prune it if it should be, report it to Optuna, and return its cost."""
    earlier = records(study.get_trials(deepcopy=False), search.space)
    trial.set_user_attr("batch_size", point.batch_size)
    trial.set_user_attr("multiplier", point.multiplier)
    for number, here in enumerate(run.curve, start=1):
        if not is_ours:
            break
        trial.report(here.value, here.samples)
        reason = should_prune(search, earlier, point, run.curve[:number], here.billable_instance_seconds)
        if reason and here.billable_instance_seconds < run.ended.billable_instance_seconds:
            curve = run.curve[:number]
            ended = TrialOutcome(
                billable_instance_seconds=here.billable_instance_seconds, samples=here.samples, quality=here.value
            )
            _end(study, trial, replace(run, curve=curve, ended=ended), f"pruned: {reason}", TrialState.PRUNED)
            return here.billable_instance_seconds
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
