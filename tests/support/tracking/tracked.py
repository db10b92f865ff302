"""A real tracking store, with runs as the recorder writes them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag

STARTED_SECONDS = 1_700_000_000.0


class Tracked:
    """A group of jobs on a tracking server."""

    def __init__(self, client: MlflowClient, experiment_id: str) -> None:
        self.client = client
        self.experiment_id = experiment_id
        self.group = "demo-1"
        self._numbers = count()

    def job(
        self,
        arm: str,
        repeat: int = 0,
        *,
        baseline: bool = False,
        status: str | None = "FINISHED",
        metrics: Mapping[str, float] = {},
        params: Mapping[str, Any] = {},
        tags: Mapping[str, str] = {},
        losses: Sequence[float] = (),
    ) -> str:
        """Add a job's run; `losses` are logged every 100 samples, 2 s apart."""
        common = {
            "platform.kind": "job",
            "platform.group": self.group,
            "arm": arm,
            "platform.baseline": "true" if baseline else "false",
            "platform.repeat": str(repeat),
            "platform.job_name": f"{self.group}-{next(self._numbers)}",
            "platform.device": "1 x test processor",
            "platform.instance_type": "local",
            "platform.data_key": "abc123",
            "platform.cache_state": "off",
            "platform.training_start_time": repr(STARTED_SECONDS),
        }
        run_id = str(self.client.create_run(self.experiment_id, tags={**common, **tags}).info.run_id)
        at_ms = int(STARTED_SECONDS * 1000)
        points = [Metric(key, value, at_ms + 60_000, 99) for key, value in metrics.items()]
        for i, loss in enumerate(losses, start=1):
            points += [Metric(key, v, at_ms + 2000 * i, i) for key, v in (("loss", loss), ("samples", 100.0 * i))]
        self.client.log_batch(
            run_id, points, [Param(key, str(value)) for key, value in params.items()], [RunTag("x", "y")]
        )
        if status:
            self.client.set_terminated(run_id, status)
        return run_id

    def trained(self, arm: str, repeat: int, billable: float, steady: float = 100.0, **more: Any) -> str:
        """Add a successful job with the usual metrics."""
        metrics = {
            "cost/billable_seconds": billable,
            "cost/billable_instance_seconds": billable,
            "throughput/steady_samples_per_second": steady,
            "throughput/end_to_end_samples_per_second": 2000 / billable,
            "time/load_seconds": 2.0,
            "time/compile_seconds": 0.0,
            "time/warmup_seconds": 1.0,
            "time/train_steady_seconds": 2000 / steady,
            "time/eval_seconds": 1.5,
            "time/save_seconds": 0.5,
            "samples": 2000.0,
            "eval_loss": 0.4,
            "eval_accuracy": 0.9,
            **more.pop("metrics", {}),
        }
        params = {"hp.batch_size": 16, "hp.learning_rate": 5e-5, "hp.seed": repeat, **more.pop("params", {})}
        losses = more.pop("losses", [math.exp(-i / 8) + 0.3 + 0.01 * repeat for i in range(20)])
        return self.job(arm, repeat, metrics=metrics, params=params, losses=losses, **more)


@pytest.fixture
def tracked(tracking_uri: str, tmp_path: Path) -> Tracked:
    """An empty group on a tracking store for one test."""
    client = MlflowClient(tracking_uri)
    return Tracked(
        client, str(client.create_experiment("reports", artifact_location=(tmp_path / "artifacts").as_uri()))
    )


@pytest.fixture
def tracked_by_server(shared_tracking_server: Any) -> Iterator[Tracked]:
    """An empty group on a real tracking server, in a separate experiment."""
    client = MlflowClient(shared_tracking_server.uri)
    experiment_id = str(client.create_experiment("reports"))
    yield Tracked(client, experiment_id)
    client.rename_experiment(experiment_id, f"reports of test {experiment_id}")
    client.delete_experiment(experiment_id)
