"""Groups of jobs with models, as commands leave them on a tracking store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlflow import MlflowClient

from models.lookup.trained_model import TrainedModel
from tests.support.tracking.tracked import Tracked
from tracking.server.store import Store


def store_of(client: MlflowClient) -> Store:
    """Return a store that waits for nothing."""
    return Store(client, retry_seconds=0.0)


def parent(tracked: Tracked, verb: str = "compare", **tags: str) -> str:
    """Add the group's run, closed."""
    own = {"kind": "group", "group": tracked.group, "verb": verb, "group_state": "closed", "experiment": "emotion"}
    named = {f"platform.{name}": value for name, value in {**own, **tags}.items()}
    return str(tracked.client.create_run(tracked.experiment_id, tags=named).info.run_id)


def arm(tracked: Tracked, label: str, seconds: list[float], accuracies: list[float], **more: Any) -> list[str]:
    """Add the jobs of an arm with their billable seconds and accuracies, and return their runs."""
    names = [f"{tracked.group}-{label}-{repeat}" for repeat in range(len(seconds))]
    return [
        tracked.trained(
            label,
            repeat,
            billable,
            metrics={"eval_accuracy": accuracy},
            tags={"platform.job_name": names[repeat]},
            losses=[],
            **more,
        )
        for repeat, (billable, accuracy) in enumerate(zip(seconds, accuracies, strict=True))
    ]


def trained(run_id: str = "a" * 32, **changes: Any) -> TrainedModel:
    """Return a model of a FINISHED run with an accuracy of 0.9."""
    fields: Mapping[str, Any] = {
        "run_id": run_id,
        "job_name": "demo-1-none-0",
        "group": "demo-1",
        "arm": "none",
        "experiment_name": "demo",
        "experiment_id": "1",
        "task": "classification",
        "status": "FINISHED",
        "failure": "",
        "metrics": {"eval_accuracy": 0.9, "eval_loss": 0.4},
        "target_metric": None,
        "evaluation_key": None,
        "data_key": "abc123",
        "model_id": None,
        "model_artifact": None,
        "model_failure": None,
        "artifact_uri": None,
        "artifact_deleted": "",
        "versions": "torch 2.13.0, transformers 5.23.0",
        "instance_type": "local",
    }
    return TrainedModel(**{**fields, **changes})
