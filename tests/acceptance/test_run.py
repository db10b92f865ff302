"""A whole acceptance on the simulated account: it shows no differences, and leaves nothing that is billed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptance.cleanup import clean_up
from acceptance.costs import Prices
from acceptance.observations import run_values
from acceptance.options import Options
from acceptance.run import accept
from acceptance.session import Session
from acceptance.steps import STEPS, needed_quotas
from acceptance.ways import Account as Accepting
from tests.conftest import ROOT
from tests.support.aws.account import KEYS, Account
from tests.support.endpoints.toolkit import Toolkit
from tests.support.services.following import until
from tests.support.tracking.managed import ARN, ManagedMlflow, server_with_s3_artifacts
from training.services.sagemaker.clients import Clients

QUICK = "tests.support.acceptance.quick"


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    table = tmp_path / "prices.json"
    table.write_text(json.dumps({"date": "2026-11-01", "usd_per_hour": {"ml.g4dn.xlarge": 0.7364}}))
    return table


@pytest.fixture
def ready(account: Account, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Account:
    """An account with the role and the quotas of all steps, whose endpoints really answer."""
    account.make_role()
    account.quotas.values.update(needed_quotas(STEPS))
    account.hosting.looks, account.hosting.serve = 0, Toolkit(tmp_path)
    monkeypatch.setenv("TRAINFARE_HOME", str(tmp_path / "home"))
    return account


@pytest.fixture
def mlflow_arn(
    ready: Account, _template_database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The ARN of a managed MLflow server with artifacts in S3."""
    keys = KEYS["aws_access_key_id"], KEYS["aws_secret_access_key"]
    with (
        server_with_s3_artifacts(tmp_path / "server", _template_database, ready.clients["s3"]) as server,
        ManagedMlflow(server.uri, *keys, ARN) as proxy,
    ):
        monkeypatch.setenv("SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT", proxy.url)
        yield ARN


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_simulated_account_shows_no_differences(
    ready: Account,
    mlflow_arn: str,
    prices: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in ("costs", "workloads"):  # a real instance does not share its CPUs with the commands
        monkeypatch.setattr(f"acceptance.{module}.LIMIT_SECONDS", 900)
    options = Options(
        role="trainer",
        budget_usd=2.5,
        folder=tmp_path / "ab12",
        mlflow=mlflow_arn,
        prices=prices,
        program=(sys.executable, "-m", QUICK),
        long_job_steps=600,
        steps_between_saves=1,
    )
    code = accept(options)
    report = json.loads((options.folder / "report.json").read_text())
    assert [each["name"] for each in report["results"]] == list(STEPS)
    assert {each["name"]: each["error"] for each in report["results"] if each["error"]} == {}
    assert [each for result in report["results"] for each in result["differences"]] == []
    assert (code, report["passed"], report["left"]) == (0, True, [])
    assert ready.hosting.names() == {}
    output = capsys.readouterr().out
    assert re.search(r"spot-stop +2 jobs of at most 1,050 s", output)
    assert f"Report: {options.folder / 'report.md'}" in output
    assert "Every step behaves like the simulated account." in (options.folder / "report.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_an_interrupted_acceptance_stops_its_jobs(
    ready: Account, prices: Path, tmp_path: Path, number: signal.Signals
) -> None:
    """Ctrl-C or the end of the terminal while the instances of the first job start."""
    ready.jobs.faults.starting_seconds = 600.0
    fields = {"--role": "trainer", "--budget": "1", "--prices": str(prices), "--folder": str(tmp_path / "results")}
    command = [sys.executable, "-m", "acceptance", *(word for pair in fields.items() for word in pair)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        until(lambda: bool(ready.jobs.names()) or process.poll() is not None, 480)
        process.send_signal(number)
        assert process.stdout
        output = process.stdout.read()
    assert process.returncode == 130, output
    [name] = ready.jobs.names()
    assert ready.jobs.describe(name)["TrainingJobStatus"] == "Stopped", output
    [folder] = (tmp_path / "results").iterdir()
    report = json.loads((folder / "report.json").read_text())
    assert (report["interrupted"], report["passed"], report["left"]) == (True, False, [])
    assert [(each["name"], each["error"]) for each in report["results"]] == [("own-task", "interrupted")]


def test_the_endpoint_of_a_failed_step_is_deleted(ready: Account, prices: Path, tmp_path: Path) -> None:
    from tests.support.endpoints.small_models import made

    folder = tmp_path / "ab12"
    folder.mkdir()
    options = Options(
        role="trainer", budget_usd=1.0, folder=folder, prices=prices, program=(sys.executable, "-m", QUICK)
    )
    accepting = Accepting(
        session=Session(options), clients=Clients(), prices=Prices(training=None, hosting=None), experiments={}
    )
    model = tmp_path / "model"
    made(model, seed=0)
    for name in (accepting.endpoint_name, "of-another-user"):
        words = ("deploy", "--model", str(model), "--service", "sagemaker", "--machine", "ml.g4dn.xlarge")
        deployed = accepting.session.run(*words, "--name", name, "--aws.role", "trainer", "--aws.prices", str(prices))
        assert deployed.code == 0, deployed.output
    assert clean_up(accepting) == []
    assert ready.hosting.names()["Endpoint"] == ["of-another-user"]


def test_a_managed_server_is_read_by_its_arn(mlflow_arn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls are signed for the ARN, whatever the tracking server of this process."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'own.db'}")
    assert run_values(mlflow_arn, "accept-ab12-managed-mlflow") == {"status": "missing", "metrics": []}
    assert os.environ["MLFLOW_TRACKING_URI"].endswith("own.db")
