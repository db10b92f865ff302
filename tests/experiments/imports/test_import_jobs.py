"""Test the import of training jobs that others started, on a simulated account with jobs that really run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from experiments.__main__ import main
from experiments.imports import import_jobs
from experiments.running.follow_group import follow
from tests.conftest import ROOT
from tests.support.aws.account import Account
from tests.support.services.following import ended, running, until
from tests.support.services.harness import SageMakerHarness
from training.contract.job_spec import MetricDefinition
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
        code = main(["attach", *words, "--prices", str(self.prices)])
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


def test_a_job_that_has_ended_is_recorded_once(team: Team) -> None:
    name = team.starts("colleagues-job", learning_rate=3e-5, hub_token=TOKEN, epochs=2)
    team.waits(name)
    code, out, error = team.attach(job=name)
    assert (code, error) == (0, "")
    assert "Recording training job colleagues-job" in out
    [run] = team.runs()
    assert (run.info.status, run.info.run_name) == ("FINISHED", name)
    assert team.curve(run, "train_loss") == {1: 1.0, 2: 0.5, 3: 0.3333}
    billed = team.harness.service.describe(name)["BillableTimeInSeconds"]
    metrics, params, tags = run.data.metrics, run.data.params, run.data.tags
    assert (metrics["eval_accuracy"], metrics["cost/billable_seconds"]) == (0.91, billed)
    assert metrics["cost/usd"] == pytest.approx(billed)  # a dollar a second
    assert (params["hp.learning_rate"], params["job.instance_type"]) == ("3e-05", "ml.g4dn.xlarge")
    assert tags["platform.price_source"] == "prices.json"
    again = team.attach(job=name)
    assert again[0] == 0
    assert [each.info.run_id for each in team.runs()] == [run.info.run_id]
    assert len(team.runs("group")) == 1


def test_likely_secrets_of_a_job_are_not_recorded(team: Team, tmp_path: Path) -> None:
    shows_it = "import sys; print('the token is ' + sys.argv[sys.argv.index('--hub_token') + 1])"
    name = team.starts("with-token", shows_it, hub_token=TOKEN, logging={"hub_token": TOKEN})
    team.waits(name)
    assert team.attach(job=name)[0] == 0
    [run] = team.runs()
    assert "(hidden: it looks like a secret)" in run.data.params["hp.hub_token"]
    (tmp_path / "artifacts").mkdir()
    artifacts = Path(team.client.download_artifacts(run.info.run_id, "", str(tmp_path / "artifacts")))
    texts = {file.name: file.read_text() for file in artifacts.rglob("*") if file.is_file()}
    assert {"request.json", "description.json", "log.txt"} <= texts.keys()
    assert "the token is (hidden: it looks like a secret)" in texts["log.txt"]
    assert not any(TOKEN in text for text in texts.values())


@pytest.fixture
def waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A script that trains until this process follows its job."""
    gate = tmp_path / "follows"
    monkeypatch.setattr(import_jobs, "follow", lambda *values, **named: gate.touch() or follow(*values, **named))
    return WAITS.format(gate=str(gate))


def test_a_running_job_is_followed_to_its_end(team: Team, waiting: str) -> None:
    name = team.starts("running-job", waiting)
    job = submit(team.harness.service, {"TrainingJobName": name, **team.account.jobs.request(name)})
    running(job, "step 1: train loss = 1.0000")
    code, out, _ = team.attach(job=name)
    assert code == 0
    assert "Following training job running-job" in out
    [run] = team.runs()
    assert run.info.status == "FINISHED"
    assert len(team.curve(run, "train_loss")) == 3


def test_a_group_of_imported_jobs_is_followed_on_after_its_command_was_killed(team: Team, waiting: str) -> None:
    tuned = {"tune-1": {"learning_rate": "3e-05"}, "tune-2": {"learning_rate": "5e-05"}}
    for name, values in tuned.items():
        team.starts(name, waiting, **values)
    team.account.jobs.tuning["bert-tuning"] = tuned
    command = [sys.executable, "-m", "experiments", "attach", "--tuning-job", "bert-tuning"]
    killed = subprocess.Popen([*command, "--prices", str(team.prices)], cwd=ROOT, stdout=subprocess.DEVNULL)
    until(lambda: len(team.runs()) == 2)
    killed.kill()
    killed.wait()
    assert {run.info.status for run in team.runs()} == {"RUNNING"}
    [group] = team.runs("group")
    code, out, error = team.attach(group=group.data.tags["platform.group"])
    assert (code, error) == (0, "")
    assert f"Following 2 jobs of {group.data.tags['platform.group']}" in out
    assert [run.info.status for run in team.runs()] == ["FINISHED"] * 2
    assert [team.curve(run, "train_loss")[3] for run in team.runs()] == [0.3333] * 2
    assert [run.data.tags["platform.arm"] for run in team.runs()] == ["learning rate 3e-05", "learning rate 5e-05"]
    code, _, error = team.attach(group=group.data.tags["platform.group"])
    assert (code, "has ended: `trainfare report --group" in error) == (2, True)
    assert sorted(team.account.jobs.names()) == ["tune-1", "tune-2"]


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


def test_the_jobs_of_a_tuning_job_are_arms_of_one_group(team: Team) -> None:
    tuned = {"tune-1": {"learning_rate": "3e-05"}, "tune-2": {"learning_rate": "5e-05"}}
    for name, values in tuned.items():
        team.starts(name, **values)
    for name in tuned:
        team.waits(name)
    team.account.jobs.tuning["bert-tuning"] = tuned
    code, out, _ = team.attach(tuning_job="bert-tuning", experiment="tuned")
    assert code == 0
    assert "Recording 2 jobs of tuning job bert-tuning" in out
    assert [run.data.tags["platform.arm"] for run in team.runs()] == ["learning rate 3e-05", "learning rate 5e-05"]
    assert len({run.data.tags["platform.group"] for run in team.runs()}) == 1
    assert [each.name for each in team.client.search_experiments() if each.name != "Default"] == ["tuned"]


def test_the_last_values_are_recorded_if_the_log_is_gone(team: Team) -> None:
    name = team.starts("old-job")
    team.waits(name)
    logs = team.account.clients["logs"]
    logs.delete_log_group(logGroupName="/aws/sagemaker/TrainingJobs")
    assert team.attach(job=name)[0] == 0
    [run] = team.runs()
    assert run.info.status == "FINISHED"
    assert run.data.metrics["train_loss"] == 0.3333


def test_unknown_jobs_and_fields_are_refused(team: Team) -> None:
    missing = (
        "no {kind} job nobody in region us-east-1 of this account: check the name, --region, and the account of your "
        "credentials"
    )
    assert team.attach(job="nobody") == (2, "", f"error: {missing.format(kind='training')}.\n")
    assert team.attach(tuning_job="nobody") == (2, "", f"error: {missing.format(kind='tuning')}.\n")
    refused = "error: --job and --tuning-job cannot be combined: attach follows one of them.\n"
    assert team.attach(job="a", tuning_job="b") == (2, "", refused)
    assert team.runs() == []
