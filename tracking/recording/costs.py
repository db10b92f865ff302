"""Costs of a job, from its service's description, and of the instances that it kept for the next job.

The duration of a warm pool is known only when the next job takes its instances or the pool expires. Until then the
job's run has a tag for its open pool. Each later command on SageMaker checks the open pools and records the cost of
those that have closed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from mlflow.entities import Run

from tracking.queries.job_tables import all_experiment_ids
from tracking.recording.metric_points import final_points
from tracking.server.store import Store
from training.contract.errors import JobNotFound, NotAllowed
from training.contract.price import InstanceSeconds, Price, instance_seconds
from training.contract.service import DOWNLOAD_STATUSES, QUEUE_STATUSES, Description, Service, instance_count


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


def cost_in_usd(billable_instance_seconds: float | None, price: Price | None) -> dict[str, float]:
    """Return `cost/usd`, if the seconds and the price are known."""
    if billable_instance_seconds is None or price is None:
        return {}
    return {"cost/usd": price.usd(InstanceSeconds(billable_instance_seconds))}


def end_to_end(samples: float | None, billable_seconds: float | None) -> dict[str, float]:
    """Return the samples per billable second, if both numbers are known."""
    if not samples or not billable_seconds:
        return {}
    return {"throughput/end_to_end_samples_per_second": samples / billable_seconds}


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
"""Tag of a run with the service's name of its job, if that is not the job's own: see `followed_job.Attempts`."""
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
    """Return the tag with the state of a job's warm pool, if it has one."""
    status = description.get("WarmPoolStatus", {}).get("Status")
    return {WARM_POOL: str(status)} if status else {}


def record_warm_pool_costs(store: Store, service: Service) -> None:
    """Write the cost of each pool that has closed since its run ended."""
    for run in _runs_with_open_pool(store):
        try:
            tags = run.data.tags
            description = service.describe(tags.get(SERVICE_NAME, tags["platform.job_name"]))
        except JobNotFound:
            continue  # a job of another account or region
        if pool_tags(description).get(WARM_POOL) in OPEN_POOL:
            continue
        metrics = warm_pool_metrics(description, _price(run.data.tags))
        at_seconds = (run.info.end_time or run.info.start_time) / 1000
        logged = final_points(metrics, at_seconds)
        with suppress(NotAllowed):  # another user's run; that user's next command records it
            store.call(store.client.log_batch, run.info.run_id, metrics=logged)
            store.tag(run.info.run_id, pool_tags(description) or {WARM_POOL: "Terminated"})


def _runs_with_open_pool(store: Store) -> list[Run]:
    since_ms = int(1000 * (time.time() - MAX_AGE_DAYS * 86_400))
    ids = store.call(lambda: list(all_experiment_ids(store.client)))
    return [
        run
        for status in OPEN_POOL
        for run in store.call(
            store.client.search_runs, ids, f"tags.\"{WARM_POOL}\" = '{status}' and attributes.start_time > {since_ms}"
        )
    ]


def _price(tags: Mapping[str, str]) -> Price | None:
    names = [f"platform.price_{name}" for name in ("usd_per_hour", "source", "date")]
    if not all(name in tags for name in names):
        return None
    usd_per_hour, source, date = (tags[name] for name in names)
    return Price(usd_per_hour=float(usd_per_hour), source=source, date=date)
