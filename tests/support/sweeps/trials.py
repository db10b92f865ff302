"""Records of trials, and Optuna's trials that say the same."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import optuna
from optuna.trial import TrialState

from sweeps.cost_model.trials import Record, Search
from sweeps.space.grid import Point, space
from sweeps.space.objective import CurvePoint, Ended, Objective, Quality
from sweeps.study.study import distributions

LOSS = Quality(metric="eval_loss", higher_is_better=False)


def search(**changes: Any) -> Search:
    """Look for the cheapest training to a loss of 0.5, among 3 batch sizes and 3 rates."""
    given: dict[str, Any] = {
        "space": space("8..32", "0.5..2", "powers_of_two", 1),
        "objective": Objective(cost="billable_seconds", quality=LOSS, target=0.5),
        "samples": 1000,
        "base": Point(8),
        **changes,
    }
    return Search(**given)


def curve(values: Sequence[float], seconds: float = 10.0) -> tuple[CurvePoint, ...]:
    """An evaluation every 100 samples, `seconds` apart."""
    return tuple(
        CurvePoint(samples=100 * at, value=value, billable_instance_seconds=seconds * at)
        for at, value in enumerate(values, start=1)
    )


def reached(point: Point, values: Sequence[float], seconds: float = 10.0, usd: float | None = None) -> Record:
    """A trial that came to its target at the last of its evaluations, which are `seconds` apart."""
    told = curve(values, seconds)
    ended = Ended(
        billable_instance_seconds=told[-1].billable_instance_seconds,
        samples=told[-1].samples,
        quality=values[-1],
        reached=True,
        usd=usd,
    )
    return Record(point=point, state="complete", curve=told, ended=ended)


def completed(point: Point, values: Sequence[float], seconds: float = 10.0) -> Record:
    """A trial that trained all it should, without a target."""
    told = curve(values, seconds)
    ended = Ended(
        billable_instance_seconds=told[-1].billable_instance_seconds, samples=told[-1].samples, quality=values[-1]
    )
    return Record(point=point, state="complete", curve=told, ended=ended)


def stopped(point: Point, values: Sequence[float], seconds: float = 10.0) -> Record:
    """A trial that was pruned after its last evaluation."""
    told = curve(values, seconds)
    ended = Ended(
        failure=("Stopped", "why"),
        billable_instance_seconds=told[-1].billable_instance_seconds,
        samples=told[-1].samples,
    )
    return Record(point=point, state="pruned", curve=told, ended=ended)


def failed(point: Point, failure_class: str) -> Record:
    """A trial whose job failed before it evaluated."""
    return Record(
        point=point, state="failed", ended=Ended(failure=(failure_class, "why"), billable_instance_seconds=30.0)
    )


def running(point: Point, values: Sequence[float] = (), seconds: float = 10.0) -> Record:
    """A trial whose job runs."""
    return Record(point=point, state="running", curve=curve(values, seconds))


def tell(study: optuna.Study, asked: Search, trial: optuna.Trial, record: Record) -> None:
    """Write a record into Optuna's trial, as a worker does."""
    seconds = {str(point.samples): point.billable_instance_seconds for point in record.curve}
    trial.set_user_attr("batch_size", record.point.batch_size)
    trial.set_user_attr("multiplier", record.point.multiplier)
    trial.set_user_attr("seconds", json.dumps(seconds))
    for point in record.curve:
        trial.report(point.value, point.samples)
    if record.ended is None:
        return
    failure = record.ended.failure
    ends = {"pruned": "pruned: why", "failed": f"failed: {failure[0] if failure else ''}"}
    told = {name: getattr(record.ended, name) for name in ("samples", "quality", "reached")}
    told["billable_seconds"] = record.ended.billable_instance_seconds
    for name, value in {**told, "end": ends.get(record.state, "completed")}.items():
        trial.set_user_attr(name, value)
    state = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "failed": TrialState.FAIL}[record.state]
    study.tell(trial, record.ended.billable_instance_seconds if record.state == "complete" else None, state)


def ask(study: optuna.Study, asked: Search) -> tuple[optuna.Trial, Point]:
    """Ask for a trial and its point."""
    trial = study.ask(distributions(asked.space))
    return trial, asked.space.point(trial.params)
