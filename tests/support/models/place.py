"""A tracking store with finished jobs, and a way to log their models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import LoggedModelStatus, Run

from models.logged.log_model import log_models
from models.trained_model import TrainedModel
from tests.support.models.made_models import job_run, planned_job
from tests.support.tracking.tracked import Tracked
from tracking.groups.group import Group
from tracking.recording.recorder import Outcome
from tracking.server.store import Store
from training.contract.service import Service
from training.services.local.service import LocalService


class Place:
    """A store with one experiment to which models can be logged."""

    def __init__(self, store: Store, experiment_id: str, folder: Path, service: Service | None = None) -> None:
        self.store, self.client = store, store.client
        self.experiment_id, self.folder = experiment_id, folder
        self.service = service or LocalService(folder / "home")
        self.scratch = folder / "scratch"
        self.messages: list[str] = []

    def run(self, archive: Path, name: str = "job-1") -> Run:
        return job_run(self.client, self.experiment_id, archive, name)

    def again(self, run: Run) -> Run:
        return self.client.get_run(run.info.run_id)

    def log(self, *runs: Run) -> None:
        outcomes: Sequence[Outcome] = [
            Outcome(
                planned=planned_job(self.folder, run.data.tags["platform.job_name"]),
                run_id=run.info.run_id,
                failure=None,
            )
            for run in runs
        ]
        group = Group("g", "parent", self.experiment_id, continued=True)
        log_models(self.store, self.service, group, outcomes, self.scratch, self.messages.append)

    @property
    def models(self) -> list[tuple[str, str, LoggedModelStatus]]:
        logged = self.client.search_logged_models([self.experiment_id])
        return [(each.name, str(each.source_run_id), each.status) for each in logged]


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
    }
    return TrainedModel(**{**fields, **changes})
