"""The main ways to train on a real AWS account: `make accept-aws ROLE=... BUDGET=1`. Tried on the simulated one too."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
from mlflow import MlflowClient

from tests.conftest import ROOT
from tests.support.aws.account import Account
from tests.support.aws.real_account import CPU_TYPE, GPU_TYPE, LIMIT_SECONDS, RealAccount
from tests.support.services.following import DEADLINE_SECONDS, RUNS_UNTIL_STOPPED, ended, until
from tests.support.services.harness import RealHarness, SageMakerHarness
from tests.training.services.sagemaker.conftest import Terminal, small_experiment
from training.contract.events import parse_line
from training.contract.service import Description
from training.services.launcher import Job, submit

TRAINING = {"instance_type": GPU_TYPE, "max_run_seconds": 600}
"""Fields `machine` of our own training. A first import of Transformers takes a minute or two."""
SCRIPT = """\
import os, pathlib, torch

numbers = [float(line) for line in open(os.path.join(os.environ["SM_CHANNEL_TRAIN"], "numbers.txt"))]
weight = torch.zeros(1, requires_grad=True)
for step, number in enumerate(numbers, start=1):
    loss = (weight - number).square().mean()
    loss.backward()
    with torch.no_grad():
        weight -= 0.1 * weight.grad
    weight.grad = None
    print(f"samples={step} loss={loss.item():.6f}", flush=True)
torch.save(weight, pathlib.Path(os.environ["SM_MODEL_DIR"]) / "weight.pt")
"""


@pytest.fixture
def user(
    real_account: RealAccount,
    tracking_uri: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Terminal:
    """A terminal in its own folder, with the user's own credentials."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_uri)
    monkeypatch.setenv("TRAINFARE_HOME", str(tmp_path / "home"))
    small = {name: value for name, value in small_experiment(tmp_path).items() if not name.startswith(("aws", "mach"))}
    return Terminal(MlflowClient(tracking_uri), small | fields_of(real_account, TRAINING), capsys)


def fields_of(account: RealAccount, machine: dict[str, Any]) -> dict[str, object]:
    """Return the fields of a job on the account."""
    aws = {f"aws.{name}": value for name, value in {**account.fields, "job_prefix": account.prefix}.items()}
    return {"service": "sagemaker", **aws, **{f"machine.{name}": value for name, value in machine.items()}}


@pytest.mark.aws
class TestWays:
    def test_our_own_training_keeps_its_model(self, user: Terminal, real_account: RealAccount) -> None:
        cost = real_account.reserve_training(**TRAINING)
        output = user("train", {"save_model": "true", "log_model": "each", "max_usd": cost})
        assert output.code == 0, output
        [run] = user.runs()
        assert run.info.status == "FINISHED"
        assert [step for step, _ in user.curve(run)] == list(range(1, 9))
        assert {"eval_loss", "cost/usd", "cost/billable_seconds"} <= set(run.data.metrics)
        description = real_account.service.describe(run.data.tags["platform.job_name"])
        check_completed(description)
        assert {"train_loss", "eval_loss"} <= {each["MetricName"] for each in description["FinalMetricDataList"]}
        assert {"config.json", "model.safetensors", "tokenizer.json"} <= model_files(real_account, description)

    def test_a_script_trains(self, user: Terminal, real_account: RealAccount, tmp_path: Path) -> None:
        (tmp_path / "code").mkdir()
        (tmp_path / "code" / "loop.py").write_text(SCRIPT)
        (tmp_path / "numbers.txt").write_text("\n".join(map(str, range(16))))
        metrics = {"loss": " loss=([0-9.]+)$", "samples": r"samples=(\d+)"}
        script = {"source": "code", "entry_point": "loop.py", "channels": {"train": "numbers.txt"}, "metrics": metrics}
        (tmp_path / "own.yaml").write_text(json.dumps({"script": script}))
        machine = {"instance_type": CPU_TYPE, "max_run_seconds": LIMIT_SECONDS}
        cost = real_account.reserve_training(**machine)
        fields = fields_of(real_account, machine) | {"experiment": "own.yaml", "max_usd": cost}
        output = user.run("train", *(word for name, value in fields.items() for word in (f"--{name}", str(value))))
        assert output.code == 0, output
        [run] = user.runs()
        assert run.info.status == "FINISHED"
        assert len(user.curve(run)) == 16
        description = real_account.service.describe(run.data.tags["platform.job_name"])
        check_completed(description)
        assert model_files(real_account, description) == {"weight.pt"}

    def test_a_stopped_spot_job_resumes_from_its_checkpoint(self, user: Terminal, real_account: RealAccount) -> None:
        """SageMaker cannot be made to interrupt a spot job. A stop sends the same signal, and the second job starts
        from the same folder as the instance that SageMaker would start after an interruption."""
        spot = {"machine.spot": "true", "machine.max_wait_seconds": 1_800}
        # 6,000 steps: about a minute on a T4 (an estimate).
        steps = {"epochs": 750, "save_strategy": "steps", "save_steps": 20, "logging_steps": 20, "eval_strategy": "end"}
        cost = sum(real_account.reserve_training(**TRAINING) for _ in ("stopped", "resumed"))
        output = user("train", {**spot, **steps, "wait": "false", "max_usd": cost})
        assert output.code == 0, output
        name = real_account.running_jobs()[0]
        pause = real_account.service.pauses_seconds[0]
        until(lambda: newest_checkpoint(real_account, name) >= 20, DEADLINE_SECONDS, pause)
        assert user.run("jobs", "--service", "sagemaker", "stop", name).code == 0
        stopped, _ = ended(Job(real_account.service, name))
        assert stopped["TrainingJobStatus"] == "Stopped"
        assert stopped["BillableTimeInSeconds"] <= stopped["TrainingTimeInSeconds"]
        newest = newest_checkpoint(real_account, name)

        members = real_account.clients.get("sagemaker").meta.service_model.operation_model("CreateTrainingJob")
        request = {key: value for key, value in stopped.items() if key in members.input_shape.members}
        resumed = Job(real_account.service, f"{name}-resumed")
        real_account.service.create({**request, "TrainingJobName": resumed.name})
        until(lambda: bool(events(real_account, resumed.name, "start")), DEADLINE_SECONDS, pause)
        [start] = events(real_account, resumed.name, "start")
        assert start["resumed_from_step"] == newest
        resumed.stop()
        ended(resumed)


def check_completed(description: Description) -> None:
    """Check the statuses and times of a completed job on demand."""
    transitions = description["SecondaryStatusTransitions"]
    statuses = ", ".join(each["Status"] for each in transitions)
    assert re.fullmatch("Starting, (Pending, )?Downloading, Training, Uploading, Completed", statuses)
    assert all(first["EndTime"] <= second["StartTime"] for first, second in pairwise(transitions))
    seconds = (description["TrainingEndTime"] - description["TrainingStartTime"]).total_seconds()
    assert description["BillableTimeInSeconds"] == pytest.approx(seconds, abs=2)


def model_files(account: RealAccount, description: Description) -> set[str]:
    """Return the names of the files in a job's model."""
    uri = description["ModelArtifacts"]["S3ModelArtifacts"]
    with account.service.open_model(uri) as stream, tarfile.open(fileobj=stream, mode="r|gz") as archive:
        return {member.name.removeprefix("./") for member in archive if member.isfile()}


def events(account: RealAccount, name: str, kind: str) -> list[dict[str, Any]]:
    """Return the fields of the events of a kind in the first page of a job's log."""
    found = (parse_line(line) for line in account.service.logs(name).lines)
    return [dict(event.fields) for event in found if event and event.kind == kind]


def newest_checkpoint(account: RealAccount, name: str) -> int:
    """Return the step of the newest complete checkpoint of a job in S3; 0 without one."""
    place = urlparse(account.service.describe(name)["CheckpointConfig"]["S3Uri"])
    pages = account.clients.get("s3").get_paginator("list_objects_v2")
    keys = (
        each["Key"]
        for page in pages.paginate(Bucket=place.netloc, Prefix=place.path.strip("/"))
        for each in page.get("Contents", [])
    )
    return max(
        (int(match[1]) for key in keys if (match := re.search(r"/checkpoint-(\d+)/progress.json", key))), default=0
    )


def accepted(account: Account, folder: Path, budget: float, selection: str) -> str:
    """Run tests of a real account in the simulated one, and return pytest's output."""
    account.make_role()
    table = {"date": "2026-11-01", "usd_per_hour": {CPU_TYPE: 0.115, GPU_TYPE: 0.7364}}
    (folder / "table.json").write_text(json.dumps(table))
    command = [sys.executable, "-m", "pytest", "-m", "aws", "-rs", "-p", "no:cacheprovider", "-p"]
    command += ["tests.support.aws.quick", "--role", "trainer", "--budget", str(budget), "--prices"]
    command += [str(folder / "table.json"), "-k", selection, "tests/training/services"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@pytest.mark.slow
def test_the_simulated_account_passes(account: Account, tmp_path: Path) -> None:
    output = accepted(account, tmp_path, 1.0, "TestWays or completed_job_has or ignores_sigterm or first_of_a_name")
    assert re.search(r"5 passed, \d+ deselected", output), output


@pytest.mark.slow
def test_a_job_beyond_the_budget_is_skipped(account: Account, tmp_path: Path) -> None:
    # A script's job can cost (240 + 120 + upload) s * 0.115 USD/h = 0.013 USD, and our own training 0.15 USD.
    output = accepted(account, tmp_path, 0.02, "our_own_training or a_script_trains")
    assert re.search(r"1 passed, 1 skipped, \d+ deselected", output), output
    assert re.search(r"the job can cost 0\.1\d\d USD, and 0\.020 USD of the budget are left", output), output


@pytest.mark.slow
def test_only_the_jobs_of_these_tests_are_stopped_at_the_end(account: Account, tmp_path: Path) -> None:
    simulated = SageMakerHarness(tmp_path, account)
    other = submit(simulated.service, simulated.request(RUNS_UNTIL_STOPPED, name="of-another-user"))
    (tmp_path / "table.json").write_text(json.dumps({"date": "2026-11-01", "usd_per_hour": {CPU_TYPE: 0.115}}))
    real = RealAccount({"role": "trainer", "prices": str(tmp_path / "table.json")}, 1.0)
    harness = RealHarness(tmp_path, real)
    job = submit(harness.service, harness.request(RUNS_UNTIL_STOPPED))
    assert real.stop_jobs() == [job.name]
    until(lambda: job.describe()["TrainingJobStatus"] == "Stopped")
    assert other.describe()["TrainingJobStatus"] == "InProgress"
