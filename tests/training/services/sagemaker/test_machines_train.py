"""Training on two instances equals training on two devices of this machine, even if it is interrupted."""

from __future__ import annotations

import io
import tarfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from experiments.planning.plan import SOURCE
from tests.support.aws.account import ROLE, Account, open_shared_account
from tests.support.job.arguments import job_arguments
from tests.support.job.job_process import example_rows, write_channel, write_tiny_model
from tracking.recording.metric_points import cost_metrics
from training.contract.events import Event, parse_line
from training.contract.job_spec import JobSpec
from training.contract.request import build
from training.contract.service import Description
from training.services.launcher import Job, submit
from training.services.local.service import LocalService
from training.services.sagemaker.clients import Clients
from training.services.sagemaker.service import SageMakerService
from training.services.sagemaker.storage import Storage, session_bucket

pytestmark = pytest.mark.slow

CHANNELS = ("train", "validation", "model")
ARGUMENTS = {
    "batch_size": 2,
    "precision": "fp32",
    "logging_steps": 1,
    "learning_rate": 0.01,
    "max_length": 12,
    "padding": "longest",
    "max_steps": 30,
    "eval_strategy": "steps",
    "eval_steps": 10,
    "save_strategy": "steps",
    "save_steps": 10,
    "best_metric": "eval_loss",
}


@dataclass(frozen=True)
class Trained:
    """A job that has ended."""

    description: Description
    lines: Sequence[str]

    def events(self, kind: str) -> list[Event]:
        return [event for event in map(parse_line, self.lines) if event and event.kind == kind]

    @classmethod
    def of(cls, job: Job) -> Trained:
        """Follow the job to its end."""
        lines: list[str] = []
        deadline = time.monotonic() + 480
        for update in job.follow():
            lines = [*([] if update.is_whole else lines), *update.lines]
            assert time.monotonic() < deadline, lines
        description = job.describe()
        assert description["TrainingJobStatus"] == "Completed", lines
        return cls(description, lines)

    @property
    def losses(self) -> list[tuple[int, float]]:
        """Return (step, loss) of each metric event with a loss."""
        points = [(event.fields["step"], event.fields["values"]) for event in self.events("metric")]
        return [(step, values["loss"]) for step, values in points if "loss" in values]


class Workspace:
    """A tiny model and its data, on this machine and in an AWS account."""

    def __init__(self, folder: Path, account: Account) -> None:
        self.folder, self.account = folder, account
        account.make_role()
        clients = Clients()
        self.storage = Storage(clients, session_bucket(clients, "123456789012"))
        self.service = SageMakerService(clients)
        self.service.pauses_seconds, self.service.log_delay_seconds = (0.05, 0.5), 0.5
        write_tiny_model(folder / "model")
        write_channel(folder / "train", *example_rows(50))
        # Inverted labels: the better the model learns, the worse it scores, so the best evaluation is not the last.
        ids, labels = example_rows(13)
        write_channel(folder / "validation", ids, [1 - label for label in labels])

    def start(self, name: str, **fields: Any) -> Job:
        """Start the job on two instances."""
        folders = {each: self.folder / each for each in CHANNELS}
        locations = {
            "channels": {each: self.storage.put_channel(folder, "data") for each, folder in folders.items()},
            "source_uri": self.storage.put_source(SOURCE),
            "output_uri": self.storage.uri("output"),
            "checkpoint_uri": self.storage.uri("checkpoints", name),
        }
        aws = {"role_arn": ROLE, "region": "us-east-1", "instance_type": "ml.g5.xlarge", "instance_count": 2}
        return submit(self.service, build(self._spec(name, **locations, **aws, **fields)))

    def start_here(self, name: str) -> Job:
        """Start the same job on two devices of this machine."""
        locations = {
            "channels": {each: (self.folder / each).as_uri() for each in CHANNELS},
            "source_uri": SOURCE.as_uri(),
            "output_uri": (self.folder / "outputs").as_uri(),
            "checkpoint_uri": (self.folder / "checkpoints").as_uri(),
        }
        return submit(LocalService(self.folder / "state"), build(self._spec(name, devices=2, **locations)))

    def model_of(self, trained: Trained) -> bytes:
        """Return the weights in a job's model artifact."""
        bucket, _, key = trained.description["ModelArtifacts"]["S3ModelArtifacts"][5:].partition("/")
        archive = self.account.clients["s3"].get_object(Bucket=bucket, Key=key)["Body"].read()
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            return tar.extractfile("model.safetensors").read()  # type: ignore[union-attr]

    def _spec(self, name: str, **fields: Any) -> JobSpec:
        environment = {"CUDA_VISIBLE_DEVICES": ""}
        return JobSpec(name=name, hyperparameters=job_arguments(**ARGUMENTS), environment=environment, **fields)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    folder = tmp_path_factory.mktemp("machines")
    with open_shared_account(folder / "account") as account:
        yield Workspace(folder, account)


@pytest.fixture(scope="module")
def trained(workspace: Workspace) -> tuple[Trained, Trained]:
    """The job on two instances, and the same job on two devices of this machine."""
    whole, here = workspace.start("whole"), workspace.start_here("here")
    return Trained.of(whole), Trained.of(here)


@pytest.fixture(scope="module")
def whole(trained: tuple[Trained, Trained]) -> Trained:
    return trained[0]


@pytest.mark.gate
def test_two_instances_train_like_two_devices_and_both_are_billed(trained: tuple[Trained, Trained]) -> None:
    whole, here = trained
    assert whole.losses == here.losses
    assert [step for step, _ in whole.losses] == list(range(1, 31))
    [result], [expected] = whole.events("result"), here.events("result")
    assert result.fields["tables"] == expected.fields["tables"]
    remote, local = result.fields["metrics"], expected.fields["metrics"]
    assert remote.keys() == local.keys()
    names = [name for name in remote if name.startswith(("eval_", "best/", "optim/", "padding/")) or name == "loss"]
    names = [name for name in names if not name.endswith(("_runtime", "_per_second"))]
    assert {name: remote[name] for name in names} == {name: local[name] for name in names}
    # The best weights are stored only on the first instance, and both instances load them.
    assert remote["best/step"] < 30
    cost = cost_metrics(whole.description)
    assert cost["cost/billable_instance_seconds"] == 2 * cost["cost/billable_seconds"] > 0


def test_an_interrupted_job_ends_with_the_same_model(workspace: Workspace, whole: Trained) -> None:
    # The newest checkpoint is uploaded without the complete random state of the second instance's process.
    workspace.account.jobs.faults.interrupted_at.append("checkpoint-20/rng_state_1.pth")
    interrupted = Trained.of(workspace.start("cut", spot=True, max_wait_seconds=172_800))
    assert [start.fields["resumed_from_step"] for start in interrupted.events("start")] == [None, 10]
    assert set(interrupted.losses) == set(whole.losses)
    assert workspace.model_of(interrupted) == workspace.model_of(whole)
