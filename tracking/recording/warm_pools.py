"""Record the cost of warm pools: instances that are kept, and charged, for the next job.

The duration is known only when the next job takes the instances or the pool expires. Until then the job's run has a tag
for its open pool. Each later command on SageMaker checks the open pools and records the cost of those that have closed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress

from mlflow.entities import Run

from tracking.queries.job_tables import all_experiment_ids
from tracking.recording import metric_points
from tracking.server.store import Store
from training.contract.errors import JobNotFound, NotAllowed
from training.contract.price import Price
from training.contract.service import Description, Service

TAG = "platform.warm_pool"
OPEN = ("InUse", "Available")
SERVICE_NAME = "platform.service_name"
"""Tag of a run with the service's name of its job, if that is not the job's own: see `tracking.following.attempts`."""
MAX_AGE_DAYS = 30
"""Pools of jobs that started earlier are not checked, because a pool stays open for hours only."""


def pool_tags(description: Description) -> dict[str, str]:
    """Return the tag with the state of a job's warm pool, if it has one."""
    status = description.get("WarmPoolStatus", {}).get("Status")
    return {TAG: str(status)} if status else {}


def record_warm_pool_costs(store: Store, service: Service) -> None:
    """Write the cost of each pool that has closed since its run ended."""
    for run in _runs_with_open_pool(store):
        try:
            tags = run.data.tags
            description = service.describe(tags.get(SERVICE_NAME, tags["platform.job_name"]))
        except JobNotFound:
            continue  # a job of another account or region
        if pool_tags(description).get(TAG) in OPEN:
            continue
        metrics = metric_points.warm_pool_metrics(description, _price(run.data.tags))
        at_seconds = (run.info.end_time or run.info.start_time) / 1000
        logged = metric_points.final_points(metrics, at_seconds)
        with suppress(NotAllowed):  # another user's run; that user's next command records it
            store.call(store.client.log_batch, run.info.run_id, metrics=logged)
            store.tag(run.info.run_id, pool_tags(description) or {TAG: "Terminated"})


def _runs_with_open_pool(store: Store) -> list[Run]:
    since_ms = int(1000 * (time.time() - MAX_AGE_DAYS * 86_400))
    ids = store.call(lambda: list(all_experiment_ids(store.client)))
    return [
        run
        for status in OPEN
        for run in store.call(
            store.client.search_runs, ids, f"tags.\"{TAG}\" = '{status}' and attributes.start_time > {since_ms}"
        )
    ]


def _price(tags: Mapping[str, str]) -> Price | None:
    names = [f"platform.price_{name}" for name in ("usd_per_hour", "source", "date")]
    if not all(name in tags for name in names):
        return None
    usd_per_hour, source, date = (tags[name] for name in names)
    return Price(usd_per_hour=float(usd_per_hour), source=source, date=date)
