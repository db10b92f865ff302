"""A state folder with jobs that really ran under the local service, and a real tracking store with their runs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from mlflow.entities import Run

from experiments.running.scheduler import run_jobs, start_jobs
from tests.support.services.following import until
from tests.support.tracking.planned_jobs import TRAIN_PY, planned_as
from tracking.groups.group import Group, close_group, open_group
from tracking.groups.plan_file import write_plan
from tracking.groups.planned_job import PlannedJob
from tracking.server.store import Store
from training.contract.job_spec import JobSpec
from training.services.local.service import LocalService
from training.services.supervision.job_folder import JobFolder

DATA, OTHER_DATA, LATER_DATA, NOBODYS_DATA = ("a1" * 16, "b2" * 16, "c3" * 16, "d4" * 16)

SAVES = """
import os, pathlib
base = pathlib.Path(os.environ["SAGEMAKER_BASE_DIR"])
(base / "checkpoints" / "checkpoint-1").mkdir()
(base / "checkpoints" / "checkpoint-1" / "weights").write_bytes(b"c" * 3000)
(base / "model" / "weights").write_bytes(b"m" * 2000)
"""


@dataclass
class State:
    """A state folder with jobs that really ran, and their runs."""

    folder: Path
    store: Store
    groups: list[Group] = field(default_factory=list)

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def service(self) -> LocalService:
        return LocalService(self.home)

    def stage(self, *keys: str) -> None:
        """Make staged data for these keys, 500 bytes each."""
        for key in keys:
            (self.home / "staged" / key / "train").mkdir(parents=True)
            (self.home / "staged" / key / "train" / "data.parquet").write_bytes(b"d" * 500)

    def planned(self, name: str, data: str = DATA, **hyperparameters: str | int | float) -> PlannedJob:
        source = self.folder / "source"
        source.mkdir(exist_ok=True)
        (source / "train.py").write_text(SAVES + TRAIN_PY)
        spec = JobSpec(
            name=name,
            hyperparameters={"steps": 2, **hyperparameters},
            channels={"train": (self.home / "staged" / data / "train").as_uri()},
            source_uri=source.as_uri(),
            output_uri=(self.home / "outputs").as_uri(),
            checkpoint_uri=(self.home / "checkpoints" / name).as_uri(),
            environment={"TRAINFARE_CORES": "1", "TRAINFARE_STOP_GRACE_SECONDS": "1"},
        )
        return replace(planned_as(spec, "none"), data_key=data)

    def open(self) -> Group:
        group = open_group(self.store, experiment_name="demo", verb="compare", key=f"k{len(self.groups)}")
        self.groups.append(group)
        return group

    def ended(self, data: str = DATA, **hyperparameters: str | int | float) -> str:
        """Run a group of one job to its end, and return the job's name."""
        group = self.open()
        name = f"{group.id}-a0r0"
        [outcome] = run_jobs(self.store, self.service, group, [self.planned(name, data, **hyperparameters)], echo=quiet)
        close_group(self.store, group, "FAILED" if outcome.failure else "FINISHED")
        until(lambda: not JobFolder(self.home / "jobs" / name).is_supervised())
        return name

    def running(self, data: str = OTHER_DATA) -> str:
        """Start a group of two jobs, whose second one does not start yet, and return the first one's name."""
        group = self.open()
        jobs = [self.planned(f"{group.id}-a0r0", data, steps=3000, pause=0.1)]
        jobs.append(self.planned(f"{group.id}-a1r0", LATER_DATA))
        write_plan(self.store, group, jobs, 1, self.home)
        assert start_jobs(self.store, self.service, group, jobs, echo=quiet) == 1
        return jobs[0].spec.name

    def run_of(self, name: str) -> Run:
        client = self.store.client
        ids = [each.experiment_id for each in client.search_experiments()]
        [run] = client.search_runs(ids, f"tags.\"platform.job_name\" = '{name}'")
        return run

    def left(self) -> set[str]:
        """Return the remaining folders in all places that a prune checks, hidden ones included."""
        places = ("jobs", "checkpoints", "outputs", "staged", "sources", "environments", "models")
        return {f"{each}/{path.name}" for each in places for path in (self.home / each).glob("*") if path.is_dir()}


def quiet(_: str) -> None:
    pass
