"""A tracking store with finished jobs, and a way to log their models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mlflow.entities import LoggedModelStatus, Run

from models.logged.group_models import log_models
from tests.support.models.made_models import job_run, planned_job
from tracking.following.followed_job import Outcome
from tracking.groups.group import Group
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

    def log(self, *runs: Run, kind: str = "classification") -> None:
        outcomes: Sequence[Outcome] = [
            Outcome(
                planned=planned_job(self.folder, run.data.tags["platform.job_name"], kind),
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
