"""Metrics and parameters of a job's run: the points of its events, each once, and its phases and costs at the end.

Points carry the job's own clock, and the same log always gives the same points, which MLflow stores once.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from types import MappingProxyType
from typing import Any

from mlflow.entities import Metric, Param

from tracking.groups.planned_job import ScriptTarget
from tracking.queries.job_tables import all_experiment_ids, tagged, tags_of
from tracking.server.store import Store
from training.contract.errors import JobNotFound, NotAllowed
from training.contract.events import Event
from training.contract.price import Price, instance_seconds
from training.contract.service import DOWNLOAD_STATUSES, QUEUE_STATUSES, Description, Service, instance_count


def metric_points(event: Event) -> list[Metric]:
    """Return the points of a `metric` event: its values, the epoch and the sample count, all at its step."""
    step, at_ms = int(event.fields["step"]), math.floor(event.time * 1000)
    values = {
        **event.fields.get("values", {}),
        "epoch": event.fields.get("epoch"),
        "samples": event.fields.get("samples"),
    }
    return [Metric(name, float(value), at_ms, step) for name, value in values.items() if _is_number(value)]


def final_points(
    values: Mapping[str, Any], at_seconds: float, step: int = 0, curves: Mapping[str, float] = MappingProxyType({})
) -> list[Metric]:
    """Return one point for each number of `values`, at the given time in seconds since the epoch.

    Metrics in `curves` already have points, the last one with this value. A different value gets a point at `step`. All
    others get step 0, for which MLflow's charts draw a bar per job instead of a line through a single point.
    """
    at_ms = math.floor(at_seconds * 1000)
    new = {name: float(v) for name, v in values.items() if _is_number(v) and curves.get(name) != float(v)}
    return [Metric(name, value, at_ms, step if name in curves else 0) for name, value in new.items()]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


FEATURES = {"probe_": "probe_precision", "calibration_": "calibration_batch_sizes", "target_": "target_metric"}
"""Prefix of a feature's hyperparameters -> the hyperparameter that turns the feature on."""


MACHINE_FIELDS = ("instance_type", "instance_count", "devices")
"""Fields of `machine` that are parameters of every run."""
OTHER_NAMES = {"model_type": "model"}
"""Field of an experiment -> the hyperparameter of the job that contains it."""


def hyperparameters(event: Event, settings: Mapping[str, str] = MappingProxyType({})) -> list[Param]:
    """Return the `hp.*` and `job.*` parameters of a `start` event, without those that have no effect.

    Empty values and the parameters of a feature that is off have no effect. The event itself, in the run's artifact
    `events.jsonl`, contains all of them.

    `settings` are the values of the fields that any arm sets, by dotted name. Each becomes a parameter, too: `hp.NAME`
    if the job has a hyperparameter of this name, else the field's own name. `MACHINE_FIELDS` are left out.
    """
    values = event.fields.get("hyperparameters", {})
    effective = {f"hp.{name}": value for name, value in values.items() if _has_effect(name, values)}
    model = {f"job.model_{name}": value for name, value in event.fields.get("model", {}).items()}
    params = {**effective, **model, "job.threads": event.fields.get("threads")}
    for field, text in settings.items():
        if field.removeprefix("machine.") not in MACHINE_FIELDS:
            params.setdefault(_parameter(field, values), text)
    return [Param(name, str(value)) for name, value in params.items() if value is not None]


def _parameter(field: str, hyperparameters: Mapping[str, Any]) -> str:
    own = field.removeprefix("script.hyperparameters.").removeprefix("script.files.")
    name = own if own != field else OTHER_NAMES.get(field, field.replace(".", "_"))
    return f"hp.{name}" if own != field or name in hyperparameters else field


def _has_effect(name: str, values: Mapping[str, Any]) -> bool:
    if values[name] in (None, "", [], -1):
        return False
    if name.startswith("save_t") or name == "save_steps":
        return values.get("save_strategy") != "none"
    return all(bool(values.get(switch)) for prefix, switch in FEATURES.items() if name.startswith(prefix))


PROGRESS = ("epoch", "samples")
"""Metrics that events state in addition to their values."""
_RECENT_EVENTS = 20_000
"""Events in which a repeated one is looked for: more than a log agent sends at once."""


class Deduplicator:
    """Filter for the events of one job, which must be passed in order."""

    def __init__(self) -> None:
        self._recent: deque[tuple[int, float]] = deque()
        self._recorded: set[tuple[int, float]] = set()
        """The recent events, by number and time."""
        self.curves: dict[str, float] = {}
        """Last value of each metric that has points."""
        self._last_steps: dict[str, int] = {}
        self._last_steps_before_start: dict[str, int] = {}
        """Last step of each metric at the latest start of the job."""
        self._last_progress: dict[str, tuple[int, float]] = {}
        """Step and value of the last point of each metric in `PROGRESS`."""

    def new_events(self, events: Iterable[Event]) -> list[Event]:
        """Return the events that are not among the recent ones. Number and time together identify an event."""
        new = []
        for event in events:
            key = (event.seq, event.time)
            if key not in self._recorded:
                new.append(event)
                self._recorded.add(key)
                self._recent.append(key)
                if len(self._recent) > _RECENT_EVENTS:
                    self._recorded.remove(self._recent.popleft())
        return new

    def new_points(self, event: Event) -> list[Metric]:
        """Return the metric points of a new event, without steps that were recorded before the job restarted."""
        if event.kind in ("start", "restart"):
            self._last_steps_before_start = dict(self._last_steps)
        if event.kind != "metric":
            return []
        points = [point for point in metric_points(event) if self._is_new(point)]
        self._last_steps |= {point.key: point.step for point in points}
        self.curves |= {point.key: point.value for point in points}
        self._last_progress |= {point.key: (point.step, point.value) for point in points if point.key in PROGRESS}
        return points

    def _is_new(self, point: Metric) -> bool:
        if point.step <= self._last_steps_before_start.get(point.key, -1):
            return False
        return self._last_progress.get(point.key) != (point.step, point.value)


def final_metrics(
    events: Iterable[Event], result: Event | None, description: Description, price: Price | None, instances: int
) -> dict[str, float]:
    """Return the metrics of a job that has ended: its phases, or what its result states about them, and its costs."""
    costs = cost_metrics(description, price) | warm_pool_metrics(description, price)
    metrics = {**phase_totals(events), **description.get("MachineLoadMetrics", {})}
    metrics |= {**(result.fields.get("metrics", {}) if result else {}), **costs}
    if result and (billable_seconds := costs.get("cost/billable_seconds")):
        counts = (event.fields["samples"] for event in events if event.kind == "metric" and "samples" in event.fields)
        if samples := next(iter(deque(counts, maxlen=1)), None):
            metrics["throughput/end_to_end_samples_per_second"] = samples / billable_seconds
    return metrics | projected_cost(metrics, instances, price)


def target_metrics(
    target: ScriptTarget, events: Iterable[Event], description: Description, figures: Mapping[str, float]
) -> dict[str, float]:
    """Return the time and cost of a script up to the first evaluation that reached its target.

    Its seconds count from the start of the script, as in our own job, and its samples are the last count before.
    `figures` are the job's metrics. Of a script that is stopped at its target, `target/billable_seconds` counts in
    comparisons: how long it then took to stop it says nothing about the setting.
    """
    found: dict[str, float] = {}
    for event in events:
        if event.kind == "metric" and "samples" in event.fields:
            found["target/samples"] = event.fields["samples"]
        if event.kind != "metric" or not target.is_reached(event.fields.get("values", {})):
            continue
        transitions = description.get("SecondaryStatusTransitions", [])
        found["target/seconds"] = _transition_seconds(transitions, event.time).get("time/script_seconds", 0.0)
        seconds = figures.get("time/download_seconds", 0.0) + found["target/seconds"]
        billed = seconds * (1 - figures.get("cost/spot_savings_percent", 0.0) / 100)
        if "cost/usd" in figures:
            found["target/usd"] = figures["cost/usd"] * billed / figures["cost/billable_seconds"]
        return {"target/reached": 1.0, **found, **({"target/billable_seconds": billed} if target.stops else {})}
    return {"target/reached": 0.0}


def phase_totals(events: Iterable[Event]) -> dict[str, float]:
    """Return `time/<phase>_seconds`, summed over `phase` events, and the mean time of a checkpoint."""
    phases: dict[str, list[float]] = {}
    for event in events:
        seconds = event.fields.get("seconds")
        if event.kind == "phase" and isinstance(seconds, (int, float)):
            phases.setdefault(event.fields["phase"], []).append(float(seconds))
    totals = {f"time/{name}_seconds": sum(each) for name, each in phases.items()}
    if saved := phases.get("checkpoint"):
        totals["time/seconds_per_checkpoint"] = math.fsum(saved) / len(saved)
    return totals


def cost_metrics(description: Description, price: Price | None = None) -> dict[str, float]:
    """Return the `cost/*` metrics of an ended job, and the phases that the service measured.

    `cost/billable_seconds` is defined as SageMaker's BillableTimeInSeconds: wall clock of one instance from the start
    of the download to the end of the upload, without provisioning. `cost/billable_instance_seconds` is that value times
    the number of instances, and is charged: `cost/usd` is known if its price is.
    """
    billable = description.get("BillableSecondsExact", description.get("BillableTimeInSeconds"))
    metrics: dict[str, float] = {}
    if billable is not None:
        metrics["cost/billable_seconds"] = float(billable)
        seconds = instance_seconds(float(billable), instance_count(description))
        metrics["cost/billable_instance_seconds"] = seconds
        metrics |= {"cost/usd": price.usd(seconds)} if price else {}
    trained = description.get("TrainingTimeInSeconds")
    if trained is not None and trained != description.get("BillableTimeInSeconds"):  # with spot
        metrics["cost/training_seconds"] = float(trained)
    statuses = [each["Status"] for each in description.get("SecondaryStatusTransitions", [])]
    if (count := statuses.count("Interrupted")) or description.get("EnableManagedSpotTraining"):
        metrics["cost/interruptions"] = float(count)
    if description.get("EnableManagedSpotTraining"):
        metrics |= _spot_metrics(description)
    metrics.update(_transition_seconds(description.get("SecondaryStatusTransitions", [])))
    return metrics


def _spot_metrics(description: Description) -> dict[str, float]:
    """Return the savings of a spot job in percent.

    SageMaker reports the spot discount as fewer billable seconds: the saved share is 1 - billable / training.
    """
    training, billable = description.get("TrainingTimeInSeconds"), description.get("BillableTimeInSeconds")
    if not training or billable is None:
        return {}
    return {"cost/spot_savings_percent": 100 * (1 - billable / training)}


def _transition_seconds(transitions: Iterable[Mapping[str, Any]], until: float = math.inf) -> dict[str, float]:
    """Return the seconds of each phase, up to a time in seconds since the epoch."""
    groups = {"time/queue_seconds": QUEUE_STATUSES, "time/download_seconds": DOWNLOAD_STATUSES}
    groups["time/upload_seconds"] = frozenset({"Uploading"})
    groups["time/script_seconds"] = frozenset({"Training"})
    totals: dict[str, float] = {}
    for transition in transitions:
        start, end = transition.get("StartTime"), transition.get("EndTime")
        for name, statuses in groups.items():
            if transition.get("Status") in statuses and isinstance(start, datetime) and isinstance(end, datetime):
                seconds = min(end.timestamp(), until) - start.timestamp()
                totals[name] = totals.get(name, 0.0) + max(0.0, seconds)
    return totals


def projected_cost(figures: Mapping[str, float], instances: int, price: Price | None) -> dict[str, float]:
    """Return the projected cost, with its interval, of the full training of a probe; empty for other jobs.

    `figures` are the job's own metrics and its cost. On spot capacity, the remaining seconds get the same discount as
    the seconds so far.
    """
    billable = figures.get("cost/billable_seconds")
    share = 1 - figures.get("cost/spot_savings_percent", 0.0) / 100
    costs: dict[str, float] = {}
    for bound in ("", "_low", "_high"):
        remaining = figures.get(f"projected/remaining_seconds{bound}")
        if billable is not None and remaining is not None:
            seconds = billable + remaining * share
            costs[f"projected/billable_seconds{bound}"] = seconds
            costs[f"projected/billable_instance_seconds{bound}"] = instance_seconds(seconds, instances)
            if price:
                costs[f"projected/usd{bound}"] = price.usd(instance_seconds(seconds, instances))
    return costs


SERVICE_NAME = "platform.service_name"
"""Tag of a run with the service's name of its job, if that is not the job's own: see `followed_job.attempt_name`."""
WARM_POOL = "platform.warm_pool"
OPEN_POOL = ("InUse", "Available")
MAX_AGE_DAYS = 30
"""Pools of jobs that started earlier are not checked, because a pool stays open for hours only."""


def warm_pool_metrics(description: Description, price: Price | None) -> dict[str, float]:
    """Return the cost of the instances that a job kept warm; empty until the warm pool is closed.

    The warm pool is charged in addition to the job's billable seconds, for each of its instances.
    """
    pool = description.get("WarmPoolStatus", {})
    seconds = pool.get("ResourceRetainedBillableTimeInSeconds")
    if pool.get("Status") not in {"Terminated", "Reused"} or seconds is None:
        return {}
    pool_seconds = instance_seconds(float(seconds), instance_count(description))
    metrics = {"cost/warm_pool_seconds": float(seconds), "cost/warm_pool_instance_seconds": pool_seconds}
    return metrics | ({"cost/warm_pool_usd": price.usd(pool_seconds)} if price else {})


def pool_tags(description: Description) -> dict[str, str]:
    status = description.get("WarmPoolStatus", {}).get("Status")
    return {WARM_POOL: str(status)} if status else {}


def record_warm_pool_costs(store: Store, service: Service) -> None:
    """Write the cost of each pool that has closed since its run ended: it expired, or a later job took it."""
    since_ms = int(1000 * (time.time() - MAX_AGE_DAYS * 86_400))
    ids = store.call(all_experiment_ids, store.client)
    queries = [f"{tagged(warm_pool=status)} and attributes.start_time > {since_ms}" for status in OPEN_POOL]
    for run in [run for query in queries for run in store.call(store.client.search_runs, ids, query)]:
        try:
            tags = run.data.tags
            description = service.describe(tags.get(SERVICE_NAME, tags["platform.job_name"]))
        except JobNotFound:
            continue  # a job of another account or region
        if pool_tags(description).get(WARM_POOL) in OPEN_POOL:
            continue
        metrics = warm_pool_metrics(description, _price(tags_of(run)))
        at_seconds = (run.info.end_time or run.info.start_time) / 1000
        logged = final_points(metrics, at_seconds)
        with suppress(NotAllowed):  # another user's run; that user's next command records it
            store.call(store.client.log_batch, run.info.run_id, metrics=logged)
            store.tag(run.info.run_id, pool_tags(description) or {WARM_POOL: "Terminated"})


def _price(tags: Mapping[str, str]) -> Price | None:
    usd, source, date = (tags.get(f"platform.price_{name}") for name in ("usd_per_hour", "source", "date"))
    return Price(usd_per_hour=float(usd), source=source, date=date) if usd and source and date else None
