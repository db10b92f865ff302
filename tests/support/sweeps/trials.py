"""Records of trials, and Optuna trials with the same content."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import optuna
from optuna.trial import TrialState

from sweeps.optuna_study import distributions
from sweeps.search_space import Point, space
from sweeps.trials import CurvePoint, Objective, Quality, Record, Search, TrialOutcome
from sweeps.worker import curve_text
from training.contract.failures import Failure

LOSS = Quality(metric="eval_loss", higher_is_better=False)


def search(**changes: Any) -> Search:
    """Return a search for the cheapest training to a loss of 0.5, among 3 batch sizes and 3 learning rates."""
    fields: dict[str, Any] = {
        "space": space("8..32", "0.5..2", "powers_of_two"),
        "objective": Objective(cost="billable_seconds", quality=LOSS, target=0.5),
        "samples": 1000,
        "base": Point(8),
        **changes,
    }
    return Search(**fields)


def curve(values: Sequence[float], seconds: float = 10.0) -> tuple[CurvePoint, ...]:
    """Return a curve with an evaluation every 100 samples, `seconds` apart."""
    return tuple(
        CurvePoint(samples=100 * at, value=value, billable_instance_seconds=seconds * at)
        for at, value in enumerate(values, start=1)
    )


def reached(point: Point, values: Sequence[float], seconds: float = 10.0, **outcome: Any) -> Record:
    """Return a trial that reached its target at its last evaluation; evaluations are `seconds` apart."""
    points = curve(values, seconds)
    last = {"billable_instance_seconds": points[-1].billable_instance_seconds, "samples": points[-1].samples}
    result = TrialOutcome(**{**last, "quality": values[-1], "reached": True, **outcome})
    return Record(point=point, state="complete", curve=points, outcome=result)


def completed(point: Point, values: Sequence[float], seconds: float = 10.0) -> Record:
    """Return a trial that completed its training, without a target."""
    return reached(point, values, seconds, reached=None)


def stopped(point: Point, values: Sequence[float], seconds: float = 10.0) -> Record:
    """Return a trial that was pruned after its last evaluation."""
    record = reached(point, values, seconds, failure=Failure("Stopped", "why"), reached=None, quality=math.nan)
    return replace(record, state="pruned")


def failed(point: Point, failure_class: str) -> Record:
    """Return a trial whose job failed before its first evaluation."""
    outcome = TrialOutcome(failure=Failure(failure_class, "why"), billable_instance_seconds=30.0)
    return Record(point=point, state="failed", outcome=outcome)


def running(point: Point, values: Sequence[float] = (), seconds: float = 10.0) -> Record:
    """Return a trial whose job is running."""
    return Record(point=point, state="running", curve=curve(values, seconds))


def write_record(study: optuna.Study, spec: Search, trial: optuna.Trial, record: Record) -> None:
    """Write a record to Optuna's trial, as a worker does."""
    trial.set_user_attr("batch_size", record.point.batch_size)
    trial.set_user_attr("multiplier", record.point.multiplier)
    trial.set_user_attr("curve", curve_text(record.curve))
    for point in record.curve:
        trial.report(point.billable_instance_seconds, point.samples)
    if record.outcome is None:
        return
    failure = record.outcome.failure
    ends = {"pruned": "pruned: why", "failed": f"failed: {failure.failure_class if failure else ''}"}
    attributes = {name: getattr(record.outcome, name) for name in ("samples", "quality", "reached")}
    attributes["billable_seconds"] = record.outcome.billable_instance_seconds
    for name, value in {**attributes, "end": ends.get(record.state, "completed")}.items():
        trial.set_user_attr(name, value)
    state = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "failed": TrialState.FAIL}[record.state]
    study.tell(trial, record.outcome.billable_instance_seconds if record.state == "complete" else None, state)


def ask(study: optuna.Study, spec: Search) -> tuple[optuna.Trial, Point]:
    """Return a new trial and its point."""
    trial = study.ask(distributions(spec.space))
    return trial, spec.space.point(trial.params)
