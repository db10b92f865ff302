"""Choice of the best settings after the trials: the finalists train a second time, with another seed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from experiments.sweeping.open_sweep import OpenSweep
from experiments.sweeping.sweep_metadata import BestPoints, decisions
from judging.summaries import geometric_mean
from reports.comparison.arms import NOT_OF_THE_SETTING
from reports.model.wording import counted
from sweeps.cost_model.finalists import choose, finalists
from sweeps.cost_model.trials import Record, best_trial, cost, eligible_trials, records
from sweeps.space.grid import Point
from sweeps.space.objective import cost_of, excess, values_of
from sweeps.study.study import current_trials
from sweeps.workers.trial_jobs import outcome_of
from sweeps.workers.trial_queue import Part
from tracking.groups.planned_job import PlannedJob
from tracking.recording.recorder import find_job_run


def train_finalists(opened: OpenSweep, parts: Sequence[Part]) -> bool:
    """Train the finalists of every compiler a second time. Return False if a person stopped a job."""
    planned = [job for part in parts for job in _second_trainings(opened, part)]
    left = [job for job in planned if not _has_ended(opened, job)]
    if not left:
        return True
    opened.echo(f"Training the best settings a second time: {counted(len(left), 'job')}")
    outcomes = opened.run(left)
    if any(outcome.failure and outcome.failure[0] == "Stopped" for outcome in outcomes):
        return False
    if len(outcomes) < len(left):
        opened.echo("Not all second trainings ran: the budget is spent.")
    return True


def find_best_points(opened: OpenSweep, parts: Sequence[Part]) -> BestPoints:
    """Return the best point of each compiler that has one: by both trainings if it has finalists, else by the trials.

    The report chooses by the same rule, see `reports.sweep.sweep.Sweep.best_of`.
    """
    best_points: dict[str, tuple[Point, float]] = {}
    for part in parts:
        search, known = decisions(part).search, _records(part)
        both = {
            record.point: [cost(search, record), second]
            for record in eligible_trials(search, known)
            if (second := _second_cost(opened, part, record.point)) is not None
        }
        best = best_trial(search, known)
        if chosen := choose(both):
            best_points[part.compiler] = chosen, geometric_mean(both[chosen])
        elif best:
            best_points[part.compiler] = best.point, cost(search, best)
    return best_points


def _second_trainings(opened: OpenSweep, part: Part) -> Iterator[PlannedJob]:
    most = opened.jobs.sweep.fields.finalists
    for point in finalists(decisions(part).search, _records(part), most):
        yield opened.jobs.second_training(opened.group.id, part.compiler, point)


def _has_ended(opened: OpenSweep, job: PlannedJob) -> bool:
    run = find_job_run(opened.store, opened.group, job.spec.name)
    return run is not None and run.has_ended


def _second_cost(opened: OpenSweep, part: Part, point: Point) -> float | None:
    """Return the cost of a point's second training, infinite without success.

    None if it has not ended, or if its end says nothing about the setting.
    """
    objective = decisions(part).search.objective
    planned = opened.jobs.second_training(opened.group.id, part.compiler, point)
    run = find_job_run(opened.store, opened.group, planned.spec.name)
    if run is None or not run.has_ended or (run.failure and run.failure[0] in NOT_OF_THE_SETTING):
        return None
    outcome = outcome_of(run, objective)
    is_good = values_of(objective, outcome) is not None and (excess(objective, outcome) or 0.0) <= 0
    return cost_of(objective, outcome) if is_good else math.inf


def _records(part: Part) -> tuple[Record, ...]:
    return records(current_trials(part.trials), part.space)
