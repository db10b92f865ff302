"""Test the import of training jobs that others started, on a simulated account with jobs that really run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from experiments.__main__ import main
from experiments.running import attach
from experiments.running.attach import described_job
from experiments.running.launch import follow
from tests.conftest import ROOT
from tests.support.aws.account import Account
from tests.support.services.following import ended, running, until
from tests.support.services.harness import SageMakerHarness
from tracking.queries.job_tables import tags_of
from training.contract.job_spec import Compiler, MetricDefinition
from training.services.launcher import submit
from training.services.sagemaker.service import SageMakerService

TRAINS = """
    import time
    for step in range(1, 4):
        print(f"step {step}: train loss = {1 / step:.4f}", flush=True)
        time.sleep(0.4)
    print("accuracy = 0.91")
"""
WAITS = """
    import pathlib, time
    for step in range(1, 4):
        print(f"step {{step}}: train loss = {{1 / step:.4f}}", flush=True)
        while not pathlib.Path({gate!r}).exists():
            time.sleep(0.05)
"""
DEFINITIONS = (
    MetricDefinition(name="step", regex=r"step (\d+):"),
    MetricDefinition(name="train:loss", regex=r"train loss = ([0-9.]+)"),
    MetricDefinition(name="eval_accuracy", regex=r"^accuracy = ([0-9.]+)"),
)
TOKEN = "hf_abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Team:
    """A colleague who starts jobs, and a user who records them."""

    harness: SageMakerHarness
    account: Account
    client: MlflowClient
    prices: Path
    capsys: pytest.CaptureFixture[str]

    def starts(self, name: str, script: str = TRAINS, **hyperparameters: object) -> str:
        fields = {"metric_definitions": DEFINITIONS, "hyperparameters": hyperparameters}
        submit(self.harness.service, self.harness.request(script, name=name, **fields))
        return name

    def waits(self, name: str) -> None:
        ended(submit(self.harness.service, {"TrainingJobName": name, **self.account.jobs.request(name)}))

    def attach(self, **options: str) -> tuple[int, str, str]:
        words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
        self.capsys.readouterr()
        code = main(["attach", *words, "--aws.prices", str(self.prices)])
        return code, *self.capsys.readouterr()

    def runs(self, kind: str = "job") -> list[Run]:
        ids = [experiment.experiment_id for experiment in self.client.search_experiments()]
        query = f"tags.\"platform.kind\" = '{kind}'"
        return list(self.client.search_runs(ids, query, order_by=["attributes.start_time"]))

    def curve(self, run: Run, metric: str) -> Mapping[int, float]:
        return {point.step: point.value for point in self.client.get_metric_history(run.info.run_id, metric)}


@pytest.fixture
def team(
    account: Account,
    tracking_uri: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Team:
    harness, prices = SageMakerHarness(tmp_path, account), tmp_path / "prices.json"
    prices.write_text(json.dumps({"date": "2026-11-01", "usd_per_hour": {"ml.g4dn.xlarge": 3600.0}}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_uri)
    monkeypatch.setenv("TRAINFARE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(SageMakerService, "pauses_seconds", (0.05, 0.5))
    monkeypatch.setattr(SageMakerService, "log_delay_seconds", 0.5)
    monkeypatch.setattr(SageMakerService, "longest_delay_seconds", 3.0)
    return Team(harness, account, MlflowClient(tracking_uri), prices, capsys)


def test_a_job_that_has_ended_is_recorded_once_and_without_likely_secrets(team: Team, tmp_path: Path) -> None:
    shows_it = "    import sys\n    print('the token is ' + sys.argv[sys.argv.index('--hub_token') + 1])\n"
    name = team.starts(
        "colleagues-job", TRAINS + shows_it, learning_rate=3e-5, hub_token=TOKEN, logging={"hub_token": TOKEN}
    )
    team.waits(name)
    code, out, error = team.attach(job=name)
    assert (code, error) == (0, "")
    assert "Recording training job colleagues-job" in out
    [run] = team.runs()
    assert (run.info.status, run.info.run_name) == ("FINISHED", name)
    assert run.data.tags["arm"] == name
    assert team.curve(run, "train:loss") == {1: 1.0, 2: 0.5, 3: 0.3333}
    billed = team.harness.service.describe(name)["BillableTimeInSeconds"]
    metrics, params, tags = run.data.metrics, run.data.params, tags_of(run)
    assert (metrics["eval_accuracy"], metrics["cost/billable_seconds"]) == (0.91, billed)
    assert metrics["cost/usd"] == pytest.approx(billed)  # a dollar a second
    assert (params["hp.learning_rate"], params["machine.instance_type"]) == ("3e-05", "ml.g4dn.xlarge")
    assert tags["platform.price_source"] == "prices.json"
    assert "(hidden: it looks like a secret)" in params["hp.hub_token"]
    (tmp_path / "artifacts").mkdir()
    artifacts = Path(team.client.download_artifacts(run.info.run_id, "", str(tmp_path / "artifacts")))
    texts = {file.name: file.read_text() for file in artifacts.rglob("*") if file.is_file()}
    assert {"request.json", "description.json", "log.txt"} <= texts.keys()
    assert "the token is (hidden: it looks like a secret)" in texts["log.txt"]
    assert not any(TOKEN in text for text in texts.values())
    assert team.attach(job=name)[0] == 0
    assert [each.info.run_id for each in team.runs()] == [run.info.run_id]
    assert len(team.runs("group")) == 1


@pytest.fixture
def waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A script that trains until this process follows its job."""
    gate = tmp_path / "follows"
    monkeypatch.setattr(attach, "follow", lambda *values, **named: gate.touch() or follow(*values, **named))
    return WAITS.format(gate=str(gate))


def test_a_running_job_is_followed_on_after_its_command_was_killed(team: Team, waiting: str) -> None:
    name = team.starts("running-job", waiting)
    running(
        submit(team.harness.service, {"TrainingJobName": name, **team.account.jobs.request(name)}),
        "step 1: train loss = 1.0000",
    )
    command = [sys.executable, "-m", "experiments", "attach", "--job", name, "--aws.prices", str(team.prices)]
    killed = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    until(lambda: len(team.runs()) == 1)
    killed.kill()
    killed.wait()
    [group] = team.runs("group")
    code, _, error = team.attach(group=group.data.tags["platform.group"])
    assert (code, "`trainfare attach --job` continues one of its jobs (running-job)" in error) == (2, True)
    code, out, _ = team.attach(job=name)
    assert (code, "Following training job running-job" in out) == (0, True)
    [run] = team.runs()
    assert run.info.status == "FINISHED"
    assert team.curve(run, "train:loss") == {1: 1.0, 2: 0.5, 3: 0.3333}
    assert len(team.runs("group")) == 1
    assert team.account.jobs.names() == [name]


def test_a_job_that_got_no_instances_is_not_started_again(team: Team) -> None:
    team.account.jobs.faults.no_capacity.add("ml.g4dn.xlarge")
    name = team.starts("no-instances")
    team.waits(name)
    code, out, _ = team.attach(job=name)
    assert code == 1
    assert "starts again" not in out
    [run] = team.runs()
    assert (run.info.status, run.data.tags["platform.failure_class"]) == ("FAILED", "Capacity")
    assert team.account.jobs.names() == [name]


def test_unknown_jobs_and_fields_are_refused(team: Team) -> None:
    missing = (
        "error: no training job nobody in region us-east-1 of this account: check the name, --aws.region, and the "
        "account of your credentials.\n"
    )
    assert team.attach(job="nobody") == (2, "", missing)
    refused = "error: --group and --job cannot be combined: attach follows one of them.\n"
    assert team.attach(group="a", job="b") == (2, "", refused)
    code, _, error = team.attach(tuning_job="a")
    assert (code, "unknown field 'tuning_job' of attach: it must be one of group, job" in error) == (2, True)
    assert team.runs() == []


NATIVE = """
{'loss': 1.4021, 'learning_rate': 1.96e-05, 'epoch': 1.0}
{'loss': 0.8233, 'learning_rate': 1.31e-05, 'epoch': 2.0}
{'loss': 0.5127, 'learning_rate': 6.5e-06, 'epoch': 3.0}
{'loss': 0.3614, 'learning_rate': 0.0, 'epoch': 4.0}
{'train_runtime': 3000.0, 'train_samples_per_second': 50.0, 'train_steps_per_second': 1.786, 'train_loss': 0.774875, \
'epoch': 4.0}
"""
COMPILED = """
{'loss': 1.4523, 'learning_rate': 3.66e-05, 'epoch': 1.0}
{'loss': 0.8417, 'learning_rate': 2.44e-05, 'epoch': 2.0}
{'loss': 0.5139, 'learning_rate': 1.22e-05, 'epoch': 3.0}
{'loss': 0.3609, 'learning_rate': 0.0, 'epoch': 4.0}
{'train_runtime': 1841.0, 'train_samples_per_second': 96.3, 'train_steps_per_second': 1.852, 'train_loss': 0.7922, \
'epoch': 4.0}
"""


def test_two_single_jobs_have_the_percentages_of_the_published_notebooks(team: Team) -> None:
    """Throughput 96.3 / 50 - 1 = 92.6 %, rounded; 1159 of 3000 s = 38.6 % and 1201 of 3200 s = 37.5 %, cut off."""
    jobs: tuple[tuple[str, Compiler, str, int, int], ...] = (
        ("native", "none", NATIVE, 28, 3200),
        ("compiled", "trcomp", COMPILED, 52, 1999),
    )
    for name, compiler, log, batch, billed in jobs:
        team.account.jobs.faults.billable_seconds[name] = billed
        fields = {"compiler": compiler, "hyperparameters": {"train_batch_size": batch}}
        submit(team.harness.service, team.harness.request(f"print({log.strip()!r})", name=name, **fields))
    for name in ("compiled", "native"):
        team.waits(name)
        assert team.attach(job=name)[0] == 0
    assert main(["report", "--runs", "native,compiled"]) == 0
    out = team.capsys.readouterr().out
    rows = [" ".join(line.split()) for line in out.splitlines()]
    assert "One job each: no verdict." in out
    assert "native 50 3,000 3,200 0.774875 0.3614" in rows
    assert "compiled 96.3 1,841 1,999 0.7922 0.3609" in rows
    assert "change +93 % −38 % −37 % – –" in rows
    assert "The samples seen differ (150,000 to 177,288)." in out
    assert "are not known" not in out
    page = Path(out.split("Report: ")[1].split("\n")[0])
    plots = (
        "Throughput: samples/s, change +93 %",
        "Training time: s, change −38 %",
        "Billable time: s, change −37 %",
        "Training loss by epoch",
    )
    assert [text for text in plots if text not in page.read_text()] == []
    assert "native: from 1.40 at 1.00 epochs to 0.361 at 4.00" in page.read_text()
    assert list(pd.read_csv(page.parent / "jobs.csv")["train_samples_per_second"]) == [50.0, 96.3]
    assert main(["report", "--runs", "compiled,native", "--format", "json"]) == 0  # 50 / 96.3 - 1 = -48.1 %
    summary = json.loads(team.capsys.readouterr().out)
    assert summary["percentages"] == {
        "train_samples_per_second": -48,
        "train_runtime": 62,  # 1159 of 1841 s: 62.95 %
        "cost_billable_seconds": 60,  # 1201 of 1999 s: 60.08 %
    }


def description(name: str, **channels: str) -> dict[str, Any]:
    return {
        "TrainingJobName": name,
        "TrainingJobArn": f"arn:aws:sagemaker:us-east-1:111122223333:training-job/{name}",
        "AlgorithmSpecification": {"TrainingImage": "image:1"},
        "RoleArn": "arn:aws:iam::111122223333:role/trainer",
        "OutputDataConfig": {"S3OutputPath": "s3://b/output"},
        "InputDataConfig": [
            {"ChannelName": channel, "DataSource": {"S3DataSource": {"S3Uri": uri}}}
            for channel, uri in channels.items()
        ],
    }


def data_key(name: str, **channels: str) -> str:
    return described_job(description(name, **channels), None, []).data_key


def test_the_source_in_a_channel_is_not_data() -> None:
    """SageMaker's SDK uploads the source of each job anew."""
    first = data_key("job-1", train="s3://b/rows", code="s3://b/job-1/code", sm_drivers="s3://b/job-1/sm_drivers")
    assert first == data_key("job-2", train="s3://b/rows", code="s3://b/job-2/code", sm_drivers="s3://b/job-2/sm")
    assert first != data_key("job-3", train="s3://b/others", code="s3://b/job-1/code")
