"""Strategies replayed on a recorded grid: the real samplers and the real pruning, jobs answered from the table."""

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
from sweeps.cost_model.costs import Measured, fit_line
from sweeps.cost_model.expected_improvement import nothing_left
from sweeps.cost_model.pruning import hopeless
from sweeps.cost_model.trials import Search, free_points, records
from sweeps.space.grid import Point
from sweeps.space.objective import Ended
from sweeps.study.sampler import sampler_of
from sweeps.study.study import distributions

WITHIN = 1.02
"""How near to the best mean cost a choice must be."""
MOST_ASKED = 20
"""Times its points that a sampler which repeats itself is asked."""


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """What a strategy paid, and what it had chosen then."""

    paid: tuple[float, ...]
    """Billable seconds after each trial, ascending."""
    choices: tuple[Point | None, ...]
    """Best finished point after each trial."""
    ends_after: int | None
    """Trials after which it found no further one worth its price; None where it never did."""
    pruned: tuple[Point, ...]
    """Points whose jobs were stopped."""

    def paid_until(self, grid: Grid) -> float:
        """Return what was paid until the choice was within 2 % of the best and stayed so; the whole, if it never was.

        Of a whole grid's cost where the choice was never right, because then only the grid tells.
        """
        right = [self.is_right(grid, number) for number in range(len(self.choices))]
        if not right or not right[-1]:
            return max(grid.whole_seconds, self.paid[-1] if self.paid else 0.0)
        wrong = [number for number, each in enumerate(right) if not each]
        return self.paid[wrong[-1] + 1 if wrong else 0]

    def is_right(self, grid: Grid, number: int) -> bool:
        """Tell whether the choice after a trial is within 2 % of the best."""
        choice = self.choices[number]
        return choice is not None and grid.cost(choice) <= WITHIN * grid.best_cost


def ours(grid: Grid, seed: int, name: str = "auto") -> Replayed:
    """Return what our strategy does: calibrated, pruned, no point twice."""
    search = varied(grid.search, seed, suited(grid))
    return _replay(grid, search, seed, sampler_of(name, search, seed), is_ours=True)


def uncalibrated(grid: Grid, seed: int) -> Replayed:
    """Return what our strategy does where nothing was calibrated."""
    search = replace(varied(grid.search, seed, suited(grid)), costs=None)
    return _replay(grid, search, seed, sampler_of("auto", search, seed), is_ours=True)


def suited(grid: Grid) -> tuple[int, ...]:
    """Return the batch sizes whose own rate gets there, all where none does: nobody sets out from one that diverges."""
    sizes, multiplier = grid.search.space.batch_sizes, grid.search.base.multiplier
    return tuple(size for size in sizes if math.isfinite(grid.cost(Point(size, multiplier)))) or sizes


def varied(search: Search, seed: int, sizes: Sequence[int] = ()) -> Search:
    """Return the search as another person might have begun it: at another batch size, after another calibration.

    `sizes` are those that it may begin at; none are all of its space.

    Nothing in our strategy is drawn: these are what differs from one sweep to the next. Seed 0 begins at the
    experiment's own; a calibration's steps are drawn from their intervals.
    """
    chance = random.Random(seed)
    base = Point(chance.choice(sizes or search.space.batch_sizes), search.base.multiplier) if seed else search.base
    costs = search.costs
    if costs is None or not seed:
        return replace(search, base=base)
    measured = tuple(_remeasured(row, chance) for row in costs.measured)
    return replace(search, base=base, costs=replace(costs, measured=measured, line=fit_line(measured)))


def _remeasured(row: Measured, chance: random.Random) -> Measured:
    """Return a size as another calibration might have found it."""
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
    """Return what Optuna's default does, every job run to its end; points asked again cost nothing."""
    return _replay(grid, grid.search, seed, TPESampler(seed=seed), is_ours=False)


def any_order(grid: Grid, seed: int) -> Replayed:
    """Return what training the whole grid in any order does: random search without repeats."""
    search = replace(grid.search, costs=None)
    return _replay(grid, search, seed, sampler_of("random", search, seed), is_ours=False)


def at_random(grid: Grid, seed: int) -> Replayed:
    """Return what Optuna's random sampler does; points asked again cost nothing."""
    return _replay(grid, grid.search, seed, optuna.samplers.RandomSampler(seed=seed), is_ours=False)


STRATEGIES: Mapping[str, Callable[[Grid, int], Replayed]] = {
    "ours": ours,
    "ours, not calibrated": uncalibrated,
    "tpe": tpe,
    "random": at_random,
    "grid": any_order,
}


def _replay(grid: Grid, search: Search, seed: int, sampler: BaseSampler, *, is_ours: bool) -> Replayed:
    """Ask, answer from the table and tell until every point is known."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(directions=search.objective.directions, sampler=sampler)
    spent = search.costs.calibration_seconds if search.costs and is_ours else 0.0
    tried: dict[Point, Run] = {}
    finished: dict[Point, Run] = {}
    paid, choices, pruned = list[float](), list[Point | None](), list[Point]()
    ends_after: int | None = None
    for _ in range(MOST_ASKED * len(grid.runs)):
        found = records(study.get_trials(deepcopy=False), search.space)
        if len(tried) == len(grid.runs) or (is_ours and not free_points(search, found)):
            break
        if is_ours and ends_after is None and nothing_left(search, found):
            ends_after = len(paid)
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
        paid.append(spent)
        choices.append(min(finished, key=lambda each: run_cost(search.objective, finished[each]), default=None))
    return Replayed(paid=tuple(paid), choices=tuple(choices), ends_after=ends_after, pruned=tuple(pruned))


def _train(search: Search, study: optuna.Study, trial: Trial, point: Point, run: Run, *, is_ours: bool) -> float:
    """Let a job run as the table tells, stop it where it is hopeless, tell Optuna, and return its bill."""
    found = records(study.get_trials(deepcopy=False), search.space)
    trial.set_user_attr("batch_size", point.batch_size)
    trial.set_user_attr("multiplier", point.multiplier)
    for number, here in enumerate(run.curve, start=1):
        if not is_ours:
            break
        trial.report(here.value, here.samples)
        why = hopeless(search, found, point, run.curve[:number], here.billable_instance_seconds)
        if why and here.billable_instance_seconds < run.ended.billable_instance_seconds:
            seen = run.curve[:number]
            ended = Ended(
                billable_instance_seconds=here.billable_instance_seconds, samples=here.samples, quality=here.value
            )
            _tell(study, trial, replace(run, curve=seen, ended=ended), f"pruned: {why}", TrialState.PRUNED)
            return here.billable_instance_seconds
    cost = run_cost(search.objective, run)
    if run.ended.failure:
        _tell(study, trial, run, f"failed: {run.ended.failure[0]}", TrialState.FAIL)
    elif not is_ours:
        # To Optuna alone, a job that did not get there is one of a very high cost: only the order counts.
        study.tell(trial, cost if math.isfinite(cost) else 1e6 * run.ended.billable_instance_seconds)
    elif run.ended.reached is False:
        _tell(study, trial, run, "not reached", TrialState.PRUNED)
    else:
        _tell(study, trial, run, "completed", TrialState.COMPLETE, run.ended.billable_instance_seconds)
    return run.ended.billable_instance_seconds


def _tell(study: optuna.Study, trial: Trial, run: Run, end: str, state: TrialState, value: float | None = None) -> None:
    seconds = {str(point.samples): point.billable_instance_seconds for point in run.curve}
    attrs = {
        "seconds": json.dumps(seconds),
        "billable_seconds": run.ended.billable_instance_seconds,
        "samples": run.ended.samples,
        "quality": run.ended.quality,
        "reached": run.ended.reached,
        "end": end,
    }
    for name, told in attrs.items():
        trial.set_user_attr(name, told)
    study.tell(trial, value, state)
