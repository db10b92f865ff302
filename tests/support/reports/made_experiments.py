"""Hand-made runs of an MLflow experiment, for its overview."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime

from mlflow import MlflowClient
from mlflow.entities import Metric

from reports.overview import Overview, overview_of
from tracking.queries.job_tables import experiment_runs

PRICED = {"platform.price_source": "AWS", "platform.price_date": "2026-02-01"}


class Experiment:
    """Runs of an MLflow experiment, with start times that the test gives."""

    def __init__(self, client: MlflowClient, name: str = "demo") -> None:
        self.client, self.name, self.id = client, name, str(client.create_experiment(name))

    def run(
        self, kind: str, group: str | None, at: str, status: str, tags: Mapping[str, str], costs: Mapping[str, float]
    ) -> str:
        start_ms = int(datetime.fromisoformat(f"{at}+00:00").timestamp() * 1000)
        tags = {"platform.kind": kind, **({"platform.group": group} if group else {}), **tags}
        run_id = str(self.client.create_run(self.id, start_time=start_ms, tags=tags).info.run_id)
        if costs:
            self.client.log_batch(run_id, [Metric(f"cost/{name}", value, start_ms, 0) for name, value in costs.items()])
        if status != "RUNNING":
            self.client.set_terminated(run_id, status)
        return run_id

    def job(
        self,
        group: str | None,
        at: str,
        arm: str = "none",
        status: str = "FINISHED",
        tags: Mapping[str, str] = {},
        **costs: float,
    ) -> str:
        seconds = costs.pop("seconds", None)
        all_costs = costs if seconds is None else {**costs, "billable_instance_seconds": seconds}
        return self.run("job", group, at, status, {"arm": arm, **tags}, all_costs)

    def parent(self, group: str, at: str, verb: str, headline: str | None = None, **tags: str) -> str:
        run_tags = {"platform.verb": verb, "platform.experiment": "demo"}
        run_tags |= {"platform.headline": headline} if headline else {}
        return self.run(
            "group", group, at, "FINISHED", {**run_tags, **{f"platform.{k}": v for k, v in tags.items()}}, {}
        )

    def overview(self, page_runs: int = 500) -> Overview:
        return overview_of(experiment_runs(self.client, self.id, page_runs=page_runs), "demo", self.id)


def made_experiment(made: Experiment) -> Experiment:
    """Add a comparison across the end of a month, a running sweep, an empty probe, and runs without a group."""
    made.parent("c-1", "2026-01-31 23:50", "compare", "“inductor” is cheaper.")
    made.job("c-1", "2026-01-31 23:51", "none", seconds=100.0, usd=1.0, tags=PRICED)
    made.job("c-1", "2026-01-31 23:59", "inductor", seconds=80.5, usd=0.75, tags=PRICED)
    made.job("c-1", "2026-02-01 00:00", "inductor", "FAILED", seconds=20.0, usd=0.25, tags=PRICED)
    made.client.delete_run(made.job("c-1", "2026-02-01 00:01", "deleted", seconds=1000.0, usd=10.0))
    made.parent("s-1", "2026-02-10 09:00", "sweep")
    made.job("s-1", "2026-02-10 09:01", "batch 8", "KILLED", seconds=30.0)
    made.job("s-1", "2026-02-10 09:02", "batch 16", "RUNNING")
    made.job("s-1", "2026-02-10 09:03", "batch 8", "FAILED")
    made.job("s-1", "2026-02-10 09:04", "batch 32", "FAILED", seconds=math.inf, usd=math.nan)
    made.parent("p-1", "2026-02-11 10:00", "probe")
    made.job(None, "2026-03-01 00:00", "none", seconds=50.0, warm_pool_instance_seconds=7.0, warm_pool_usd=0.07)
    made.client.delete_run(made.parent("d-1", "2026-03-01 01:00", "train", "an answer that is deleted"))
    made.job("d-1", "2026-03-02 12:00", "none", seconds=9.5)
    made.run("report", None, "2026-03-03 00:00", "FINISHED", {}, {"billable_instance_seconds": 5000.0})
    made.client.create_run(made.id)
    return made
