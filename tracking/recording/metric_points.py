"""Events and descriptions become MLflow points: pure, and the same points each time the same log is read.

Points carry the job's own clock, so reading a log again yields identical points, which MLflow stores once.
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
    """Return the points of a `metric` event: its values, the epoch, and the samples seen, all at its step."""
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
    """Return one point for each number of `values`, at the given second.

    Those of `curves`, metrics that had points before, end theirs at `step`. All others stand at step 0, where MLflow's
    charts draw a bar for each job and not a line through its only point.
    """
    at_ms = _milliseconds(at_seconds)
    steps = {name: step if name in curves else 0 for name in values}
    return [Metric(name, float(v), at_ms, steps[name]) for name, v in values.items() if _is_number(v)]


FEATURES = {
    "push_": "push_to_hub",
    "probe_": "probe_precision",
    "calibration_": "calibration_batch_sizes",
    "target_": "target_metric",
}
"""By how its hyperparameters begin, the one without which a feature is not used."""


def hyperparameters(event: Event) -> list[Param]:
    """Return the `hp.*` and `job.*` parameters that a `start` event tells, without those that do nothing.

    An empty one does nothing, nor does one of a feature that is not used; the event itself, among the run's artifacts,
    holds all.
    """
    told = event.fields.get("hyperparameters", {})
    effective = {f"hp.{name}": value for name, value in told.items() if _acts(name, told)}
    model = {f"job.model_{name}": value for name, value in event.fields.get("model", {}).items()}
    told = {**effective, **model, "job.threads": event.fields.get("threads")}
    return [Param(name, _text(value)) for name, value in told.items() if value is not None]


def _acts(name: str, told: Mapping[str, Any]) -> bool:
    if told[name] in (None, "", [], -1):
        return False
    if name.startswith("save_t") or name == "save_steps":
        return told.get("save_strategy") != "none"
    return all(bool(told.get(needed)) for start, needed in FEATURES.items() if name.startswith(start))


def phase_totals(events: Iterable[Event]) -> dict[str, float]:
    """Return `time/<phase>_seconds` summed over `phase` events: what is known of a job without a result."""
    totals: dict[str, float] = {}
    for event in events:
        if event.kind == "phase" and _is_number(event.fields.get("seconds")):
            name = f"time/{event.fields['phase']}_seconds"
            totals[name] = totals.get(name, 0.0) + float(event.fields["seconds"])
    return totals


def cost_metrics(description: Description) -> dict[str, float]:
    """Return `cost/*` and the service's own phases of an ended job.

    `cost/billable_seconds` means what SageMaker's BillableTimeInSeconds means: wall clock from the start of downloading
    to the end of uploading, per instance, provisioning excluded; times the instances for what is paid.
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


def _spot_metrics(description: Description) -> dict[str, float]:
    """Return what spare capacity saved, and how often it was taken back.

    With spot SageMaker tells the discount as fewer billable seconds: saved is 1 - billable / training.
    """
    training, billable = description.get("TrainingTimeInSeconds"), description.get("BillableTimeInSeconds")
    statuses = [each["Status"] for each in description.get("SecondaryStatusTransitions", [])]
    metrics = {"cost/spot_interruptions": float(statuses.count("Interrupted"))}
    if training and billable is not None:
        metrics["cost/spot_savings_percent"] = 100 * (1 - billable / training)
    return metrics


def warm_pool_metrics(description: Description, price: Price | None) -> dict[str, float]:
    """Return what machines cost that stayed for a next job, once that is over; nothing before.

    Billed beside the job, and not part of its billable seconds; times the instances as these are.
    """
    pool = description.get("WarmPoolStatus", {})
    seconds = pool.get("ResourceRetainedBillableTimeInSeconds")
    if pool.get("Status") not in {"Terminated", "Reused"} or seconds is None:
        return {}
    pool_instance_seconds = instance_seconds(float(seconds), instance_count(description))
    metrics = {"cost/warm_pool_seconds": float(seconds), "cost/warm_pool_instance_seconds": pool_instance_seconds}
    return metrics | ({"cost/warm_pool_usd": price.usd(pool_instance_seconds)} if price else {})


def money(billable_instance_seconds: float | None, price: Price | None) -> dict[str, float]:
    """Return the cost of a job in dollars, where seconds and price are known."""
    if billable_instance_seconds is None or price is None:
        return {}
    return {"cost/usd": price.usd(InstanceSeconds(billable_instance_seconds))}


def projection(figures: Mapping[str, float], instances: int, price: Price | None) -> dict[str, float]:
    """Return what the whole training of a probe would be billed, with its interval: nothing for other jobs.

    `figures` are the job's own and its cost. What remains is discounted as what was run, where capacity is spare.
    """
    billable = figures.get("cost/billable_seconds")
    share = 1 - figures.get("cost/spot_savings_percent", 0.0) / 100
    told: dict[str, float] = {}
    for end in ("", "_low", "_high"):
        remaining = figures.get(f"projected/remaining_seconds{end}")
        if billable is not None and remaining is not None:
            seconds = billable + remaining * share
            told[f"projected/billable_seconds{end}"] = seconds
            told[f"projected/billable_instance_seconds{end}"] = instance_seconds(seconds, instances)
            if price:
                told[f"projected/usd{end}"] = price.usd(instance_seconds(seconds, instances))
    return told


def end_to_end(samples: float | None, billable_seconds: float | None) -> dict[str, float]:
    """Return samples over billable seconds, where both are known."""
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


def _text(value: Any) -> str:
    return str(value)[:6000]
