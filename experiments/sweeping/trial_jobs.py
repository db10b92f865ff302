"""Run a sweep's trials as tracked jobs: start each job once, record it in its MLflow run, and read its outcome."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from experiments.running.followed_job import FollowedJob, start_job
from sweeps.costs import FIGURES, CostModel, cost_model, measurements
from sweeps.search_space import Point
from sweeps.trials import CurvePoint, Objective, TrialOutcome
from sweeps.worker import Running
from tracking.budgets.ledger import Ledger
from tracking.groups.group import Group
from tracking.groups.planned_job import PlannedJob
from tracking.queries.metric_histories import histories
from tracking.recording.recorder import JobRun, Outcome, find_job_run
from tracking.server.store import Store
from training.contract.errors import TrackingError
from training.contract.events import Event
from training.contract.price import instance_seconds
from training.contract.service import Service


class TrialJobs:
    """Implementation of `Runner` over a service and a tracking store."""

    def __init__(
        self,
        store: Store,
        service: Service,
        group: Group,
        planned: Callable[[str, Point], PlannedJob],
        objective: Objective,
        echo: Callable[[str], None],
        jobs_at_once: int = 1,
    ) -> None:
        """`planned` returns the job of a compiler and a point; equal arguments give the same job.

        `jobs_at_once` jobs share what is left of the budget.
        """
        self._jobs_at_once = jobs_at_once
        self._store, self._service, self._group = store, service, group
        self._planned, self._objective, self._echo = planned, objective, echo
        self._jobs: dict[tuple[str, Point], PlannedJob] = {}

    def job_name(self, compiler: str, point: Point) -> str:
        return self._job(compiler, point).spec.name

    def _job(self, compiler: str, point: Point) -> PlannedJob:
        """Return the point's job. Each job is planned only once, because planning uploads its inputs."""
        if (compiler, point) not in self._jobs:
            self._jobs[compiler, point] = self._planned(compiler, point)
        return self._jobs[compiler, point]

    def start(self, compiler: str, point: Point, trial_number: int) -> Running | TrialOutcome:
        """Start the job of this point of the search space, or attach to it if it exists.

        Raises `QuotaError` if the account has no room for the job, `BudgetFull` if the budget has none, and
        `InputError` if the service refuses it. A permanent refusal is recorded in the job's run.
        """
        planned, ledger = self._job(compiler, point), Ledger(self._store, self._service, self._group)
        tags = {"platform.trial": str(trial_number)}
        planned = replace(planned, tags={**planned.tags, **tags})
        run = find_job_run(self._store, self._group, planned.spec.name)
        run = run or ledger.open_run(planned, self._jobs_at_once)
        if run.has_ended:
            self._store.tag(run.id, {**tags, "platform.role": "trial"})
            return outcome_of(run, self._objective)
        started = start_job(ledger, planned, run, self._echo, self._jobs_at_once)
        if not isinstance(started, Outcome):
            return _RunningJob(started, self._read, self._objective)
        assert started.refusal
        raise started.refusal

    def conclude(self, job_name: str, end: str) -> None:
        self._store.tag(self._read(job_name).id, {"platform.end": end})

    def _read(self, job_name: str) -> JobRun:
        run = find_job_run(self._store, self._group, job_name)
        if run is None:
            raise TrackingError(f"The tracking server {self._store.uri} no longer has the run of job {job_name}.")
        return run


class _RunningJob:
    def __init__(self, followed: FollowedJob, read: Callable[[str], JobRun], objective: Objective) -> None:
        self._followed, self._read, self._objective = followed, read, objective
        self.job_name = followed.planned.spec.name

    @property
    def due(self) -> float:
        return self._followed.due

    @property
    def curve(self) -> Sequence[CurvePoint]:
        quality, started = self._objective.quality, self._followed.training_started
        if quality is None or started is None:
            return ()
        return curve(self._followed.events, quality.metric, started, self._followed.planned.spec.instance_count)

    @property
    def billable_instance_seconds(self) -> float:
        started = self._followed.training_started
        instances = self._followed.planned.spec.instance_count
        return instance_seconds(time.time() - started, instances) if started else 0.0

    def look(self) -> TrialOutcome | None:
        if self._followed.advance() is None:
            return None
        return outcome_of(self._read(self.job_name), self._objective)

    def stop(self) -> None:
        self._followed.stop()

    def close(self) -> None:
        self._followed.close()


def curve(events: Iterable[Event], metric: str, started: float, instances: int) -> list[CurvePoint]:
    """Return the evaluations of a job; `started` is the start of its billed time, in seconds since the epoch."""
    evaluations = [each for each in events if each.kind == "metric" and metric in each.fields.get("values", {})]
    return [
        CurvePoint(
            samples=int(each.fields.get("samples") or 0),
            value=float(each.fields["values"][metric]),
            billable_instance_seconds=instance_seconds(each.time - started, instances),
        )
        for each in evaluations
    ]


def outcome_of(run: JobRun, objective: Objective) -> TrialOutcome:
    """Return the outcome of an ended job under the objective."""
    metrics = run.metrics
    return TrialOutcome(
        failure=run.failure,
        death=run.death,
        # A cost that has not arrived is unknown: with 0 the trial would be the best one.
        billable_instance_seconds=metrics.get("cost/billable_instance_seconds", 0.0 if run.failure else math.nan),
        usd=metrics.get("cost/usd"),
        samples=int(metrics.get("samples", 0)),
        steady_samples_per_second=metrics.get("throughput/steady_samples_per_second", math.nan),
        quality=metrics.get(objective.quality.metric, math.nan) if objective.quality else math.nan,
        reached=None if objective.target is None else bool(metrics.get("target/reached")),
        run_id=run.id,
    )


def calibrated_costs(store: Store, run: JobRun) -> CostModel:
    """Return the cost model of a calibration. Raises ValueError if no batch size fits in memory."""
    table = store.call(lambda: histories(store.client, {run.id: 0.0}, list(FIGURES)))[run.id]
    return cost_model(measurements(zip(table["step"], table["key"], table["value"], strict=True)))
