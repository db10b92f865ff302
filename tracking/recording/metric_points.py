"""Convert events and job descriptions to MLflow points. Pure: the same log always gives the same points.

Points carry the job's own clock. Reading a log again yields identical points, which MLflow stores once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Set
from datetime import datetime
from typing import Any

from mlflow.entities import Metric, Param

from training.contract.events import Event
from training.contract.price import InstanceSeconds, Price, instance_seconds
from training.contract.service import DOWNLOAD_STATUSES, QUEUE_STATUSES, Description, instance_count


def metric_points(event: Event) -> list[Metric]:
    """Return the points of a `metric` event: its values, the epoch and the sample count, all at its step."""
    step, at_ms = int(event.fields["step"]), _milliseconds(event.time)
    values = {
        **event.fields.get("values", {}),
        "epoch": event.fields.get("epoch"),
        "samples": event.fields.get("samples"),
    }
    return [Metric(name, float(value), at_ms, step) for name, value in values.items() if _is_number(value)]


def final_points(
    values: Mapping[str, Any], at_seconds: float, step: int = 0, curves: Set[str] = frozenset()
) -> list[Metric]:
    """Return one point for each number of `values`, at the given time in seconds since the epoch.

    Metrics in `curves` already have points and get their last one at `step`. All others get step 0, for which MLflow's
    charts draw a bar per job instead of a line through a single point.
    """
    at_ms = _milliseconds(at_seconds)
    steps = {name: step if name in curves else 0 for name in values}
    return [Metric(name, float(v), at_ms, steps[name]) for name, v in values.items() if _is_number(v)]


FEATURES = {
    "probe_": "probe_precision",
    "calibration_": "calibration_batch_sizes",
    "target_": "target_metric",
}
"""Prefix of a feature's hyperparameters -> the hyperparameter that turns the feature on."""


def hyperparameters(event: Event) -> list[Param]:
    """Return the `hp.*` and `job.*` parameters of a `start` event, without those that have no effect.

    Empty values and the parameters of a feature that is off have no effect. The event itself, in the run's artifact
    `events.jsonl`, contains all of them.
    """
    values = event.fields.get("hyperparameters", {})
    effective = {f"hp.{name}": value for name, value in values.items() if _has_effect(name, values)}
    model = {f"job.model_{name}": value for name, value in event.fields.get("model", {}).items()}
    params = {**effective, **model, "job.threads": event.fields.get("threads")}
    return [Param(name, str(value)) for name, value in params.items() if value is not None]


def _has_effect(name: str, values: Mapping[str, Any]) -> bool:
    if values[name] in (None, "", [], -1):
        return False
    if name.startswith("save_t") or name == "save_steps":
        return values.get("save_strategy") != "none"
    return all(bool(values.get(switch)) for prefix, switch in FEATURES.items() if name.startswith(prefix))


def phase_totals(events: Iterable[Event]) -> dict[str, float]:
    """Return `time/<phase>_seconds`, summed over `phase` events. A job's result, if any, replaces these sums."""
    totals: dict[str, float] = {}
    for event in events:
        if event.kind == "phase" and _is_number(event.fields.get("seconds")):
            name = f"time/{event.fields['phase']}_seconds"
            totals[name] = totals.get(name, 0.0) + float(event.fields["seconds"])
    return totals


def seconds_per_checkpoint(events: Iterable[Event]) -> dict[str, float]:
    """Return `time/seconds_per_checkpoint`, the mean time of a checkpoint; empty if none was written."""
    phases = [event.fields for event in events if event.kind == "phase" and event.fields.get("phase") == "checkpoint"]
    seconds = [float(fields["seconds"]) for fields in phases if _is_number(fields.get("seconds"))]
    return {"time/seconds_per_checkpoint": math.fsum(seconds) / len(seconds)} if seconds else {}


def last_samples(events: Iterable[Event]) -> float | None:
    """Return the latest sample count; None if no event has one."""
    count = None
    for event in events:
        if event.kind == "metric":
            count = event.fields.get("samples", count)
    return count


def cost_metrics(description: Description) -> dict[str, float]:
    """Return the `cost/*` metrics of an ended job, and the phases that the service measured.

    `cost/billable_seconds` is defined as SageMaker's BillableTimeInSeconds: wall clock of one instance from the start
    of the download to the end of the upload, without provisioning. `cost/billable_instance_seconds` is that value times
    the number of instances, and is charged.
    """
    billable = description.get("BillableSecondsExact", description.get("BillableTimeInSeconds"))
    metrics: dict[str, float] = {}
    if billable is not None:
        metrics["cost/billable_seconds"] = float(billable)
        metrics["cost/billable_instance_seconds"] = instance_seconds(float(billable), instance_count(description))
    trained = description.get("TrainingTimeInSeconds")
    if trained is not None and trained != description.get("BillableTimeInSeconds"):  # with spot
        metrics["cost/training_seconds"] = float(trained)
    if description.get("EnableManagedSpotTraining"):
        metrics |= _spot_metrics(description)
    metrics.update(_transition_seconds(description.get("SecondaryStatusTransitions", [])))
    return metrics


def machine_load(description: Description) -> dict[str, float]:
    """Return the `machine/*` metrics that the local service measured beside a user's script."""
    return {name: float(value) for name, value in description.get("MachineLoadMetrics", {}).items()}


def _spot_metrics(description: Description) -> dict[str, float]:
    """Return the savings of a spot job in percent, and the number of its interruptions.

    SageMaker reports the spot discount as fewer billable seconds: the saved share is 1 - billable / training.
    """
    training, billable = description.get("TrainingTimeInSeconds"), description.get("BillableTimeInSeconds")
    statuses = [each["Status"] for each in description.get("SecondaryStatusTransitions", [])]
    metrics = {"cost/spot_interruptions": float(statuses.count("Interrupted"))}
    if training and billable is not None:
        metrics["cost/spot_savings_percent"] = 100 * (1 - billable / training)
    return metrics


def warm_pool_metrics(description: Description, price: Price | None) -> dict[str, float]:
    """Return the cost of the instances that a job kept warm; empty until the warm pool is closed.

    The warm pool is charged in addition to the job's billable seconds, for each of its instances.
    """
    pool = description.get("WarmPoolStatus", {})
    seconds = pool.get("ResourceRetainedBillableTimeInSeconds")
    if pool.get("Status") not in {"Terminated", "Reused"} or seconds is None:
        return {}
    pool_seconds = instance_seconds(float(seconds), _instances(description))
    metrics = {"cost/warm_pool_seconds": float(seconds), "cost/warm_pool_instance_seconds": pool_seconds}
    return metrics | ({"cost/warm_pool_usd": price.usd(pool_seconds)} if price else {})


def _instances(description: Description) -> int:
    """Return the number of instances; with fallback instance types, the number for the selected type."""
    resources = description.get("ResourceConfig", {})
    return int(resources.get("SelectedInstanceCount", resources.get("InstanceCount", 1)))


def cost_in_usd(billable_instance_seconds: float | None, price: Price | None) -> dict[str, float]:
    """Return `cost/usd`, if the seconds and the price are known."""
    if billable_instance_seconds is None or price is None:
        return {}
    return {"cost/usd": price.usd(InstanceSeconds(billable_instance_seconds))}


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


def end_to_end(samples: float | None, billable_seconds: float | None) -> dict[str, float]:
    """Return the samples per billable second, if both numbers are known."""
    if not samples or not billable_seconds:
        return {}
    return {"throughput/end_to_end_samples_per_second": samples / billable_seconds}


def _transition_seconds(transitions: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    groups = {"time/queue_seconds": QUEUE_STATUSES, "time/download_seconds": DOWNLOAD_STATUSES}
    groups["time/upload_seconds"] = frozenset({"Uploading"})
    groups["time/script_seconds"] = frozenset({"Training"})
    totals: dict[str, float] = {}
    for transition in transitions:
        start, end = transition.get("StartTime"), transition.get("EndTime")
        for name, statuses in groups.items():
            if transition.get("Status") in statuses and isinstance(start, datetime) and isinstance(end, datetime):
                totals[name] = totals.get(name, 0.0) + (end - start).total_seconds()
    return totals


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def _milliseconds(seconds: float) -> int:
    return math.floor(seconds * 1000)
