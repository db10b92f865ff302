"""A stop, a time limit and a spot interruption, in containers that start as on AWS: a checkpoint is written, and the
training that resumes from it has the curve of an uninterrupted one. Without our entry point, no checkpoint is written.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from experiments.planning.plan import SOURCE
from tests.support.aws.account import BUCKET, ROLE, Account, open_shared_account
from tests.support.job.arguments import job_arguments
from tests.support.job.job_process import example_rows, write_channel, write_tiny_model
from training.contract.events import Event
from training.contract.job_spec import JobSpec
from training.contract.request import build
from training.services.launcher import Job, submit
from training.services.sagemaker.aws_context import AwsContext, open_aws_context
from training.services.sagemaker.service import SageMakerService

pytestmark = pytest.mark.slow

STEPS = 50
SAVE_STEPS = 26
"""Gives one regular checkpoint, halfway through the training."""
SLOW = """
import importlib, os, runpy, signal, sys, time
# Like the job itself, before its imports start threads.
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
importlib.import_module("compilation.lean_imports")
trainer = importlib.import_module("loop.job_trainer").JobTrainer
step = trainer.training_step
def slow(self, *args, **kwargs):
    time.sleep(float(os.environ["STEP_SECONDS"]))
    return step(self, *args, **kwargs)
trainer.training_step = slow
sys.argv[0] = "train.py"
runpy.run_path("train.py", run_name="__main__")
"""
ARGUMENTS = {
    "batch_size": 2,
    "precision": "fp32",
    "logging_steps": 1,
    "learning_rate": 0.01,
    "max_length": 12,
    "padding": "longest",
    "max_steps": STEPS,
    "save_strategy": "steps",
}
Ways = Mapping[str, dict[str, Any]]
WAYS: Ways = {
    # Only the stop itself can write a checkpoint.
    "stop": {"save_steps": 1000, "step_seconds": 0.5},
    "spot interruption": {"save_steps": SAVE_STEPS, "step_seconds": 0.8, "spot": True, "max_wait_seconds": 172_800},
}


@dataclass(frozen=True)
class Training:
    """Events of a job that has ended, and its secondary status."""

    events: list[Event]
    status: str

    @property
    def curve(self) -> list[tuple[int, Any]]:
        """Return (step, values) of each training metric."""
        points = [(each.fields["step"], each.fields["values"]) for each in self.events if each.kind == "metric"]
        names = ("loss", "grad_norm", "learning_rate")
        return [(step, tuple(values[name] for name in names)) for step, values in points if "loss" in values]

    @property
    def starts(self) -> list[int | None]:
        return [each.fields["resumed_from_step"] for each in self.events if each.kind == "start"]


class Workspace:
    """A tiny model and its data, and an AWS account."""

    def __init__(self, folder: Path, account: Account) -> None:
        self.folder, self.account = folder, account
        account.make_role()
        self.context: AwsContext = open_aws_context({"role": ROLE, "region": "us-east-1"})
        self.service = SageMakerService(self.context.clients)
        self.service.pauses_seconds, self.service.log_delay_seconds = (0.05, 0.5), 0.5
        shutil.copytree(SOURCE, folder / "source", ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "source" / "main.py").write_text(SLOW)
        write_tiny_model(folder / "model")
        write_channel(folder / "train", *example_rows(50))
        write_channel(folder / "validation", *example_rows(13))

    def start(self, name: str, checkpoints: str, *, save_steps: int, step_seconds: float = 0.0, **fields: Any) -> Job:
        """Start a job as the command line does, with the checkpoints in a folder of this name."""
        entry = fields.pop("entry", {})
        spec = JobSpec(
            name=name,
            hyperparameters=job_arguments(**ARGUMENTS, save_steps=save_steps),
            channels={each: (self.folder / each).as_uri() for each in ("train", "validation", "model")},
            source_uri=(self.folder / "source").as_uri(),
            program="main.py",
            output_uri="unused",
            instance_type="ml.g5.xlarge",
            environment={"STEP_SECONDS": str(step_seconds)},
            checkpoint_uri="unused",
            **fields,
        )
        uploaded = self.context.upload(spec, print)
        uri = self.context.storage.uri("checkpoints", checkpoints)
        return submit(self.service, build(uploaded.model_copy(update={"checkpoint_uri": uri, **entry})))

    def checkpoints(self, name: str) -> set[str]:
        """Return the names of the checkpoints in S3."""
        prefix = f"trainfare/checkpoints/{name}/"
        listed = self.account.clients["s3"].list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])
        folders = {each["Key"].removeprefix(prefix).partition("/")[0] for each in listed}
        return {each for each in folders if each.startswith("checkpoint-")}


def followed(job: Job, *, stop_at: int | None = None) -> Training:
    """Follow the job to its end. Stop it once when it reports the step `stop_at`."""
    events: list[Event] = []
    for update in job.follow():
        events = [*([] if update.is_whole else events), *update.events]
        if stop_at is not None and any(each.kind == "metric" and each.fields["step"] >= stop_at for each in events):
            job.stop()
            stop_at = None
    return Training(events, job.describe()["SecondaryStatus"])


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    folder = tmp_path_factory.mktemp("stops")
    with open_shared_account(folder / "account") as account:
        yield Workspace(folder, account)


@pytest.fixture(scope="module")
def whole(workspace: Workspace) -> Training:
    """The uninterrupted training."""
    return followed(workspace.start("whole", "whole", save_steps=SAVE_STEPS))


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, workspace: Workspace) -> Iterator[str]:
    faults = workspace.account.jobs.faults
    if request.param == "spot interruption":
        faults.warned_at.append(f"checkpoint-{SAVE_STEPS}/progress.json")
    yield request.param
    faults.warned_at.clear()
    faults.grace_seconds = 120.0


def test_the_training_saves_a_checkpoint_and_resumes_with_the_same_curve(
    workspace: Workspace, whole: Training, way: str
) -> None:
    assert [step for step, _ in whole.curve] == list(range(1, STEPS + 1))
    name = way.replace(" ", "-")
    first = followed(workspace.start(name, name, **WAYS[way]), stop_at=3 if way == "stop" else None)
    if way == "spot interruption":  # the job starts again by itself
        assert first.status == "Completed"
        beginning, resumed = first.starts
        assert beginning is None
        assert resumed is not None
        assert SAVE_STEPS < resumed < STEPS
        assert first.curve == whole.curve
        return
    assert first.status == {"stop": "Stopped", "time limit": "MaxRuntimeExceeded"}[way]
    last = len(first.curve)
    assert 0 < last < STEPS
    assert workspace.checkpoints(name) == {f"checkpoint-{last}"}
    second = followed(workspace.start(f"{name}-again", name, save_steps=1000))
    assert (second.status, second.starts) == ("Completed", [last])
    assert first.curve + second.curve == whole.curve
