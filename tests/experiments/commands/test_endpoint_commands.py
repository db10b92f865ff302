"""The verbs of endpoints: wrong input, and lifetimes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from rich.console import Console

from experiments.__main__ import main
from experiments.deployments.arguments import read_seconds
from experiments.deployments.known_endpoints import EndpointRecord, read_records
from experiments.deployments.list_endpoints import _table
from models.endpoints.protocol import EndpointState
from tests.conftest import ROOT
from tests.support.endpoints.small_models import made
from training.contract.price import Price

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """The command line in this process, with a separate home. Returns exit code, output and errors."""
    monkeypatch.setenv("TRAINFARE_HOME", str(tmp_path / "home"))

    def run_command(*words: object) -> tuple[int, str, str]:
        code = main([str(word) for word in words])
        output = capfd.readouterr()
        return code, output.out, output.err

    return run_command


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("model"), seed=0)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("deploy",), "deploy needs either --run (a run id, a job name or a group id) or --model (a folder)."),
        (("deploy", "--model", "/nowhere"), "model is '/nowhere': it must be a Transformers folder"),
        (("deploy", "--model", "M", "--lifetme", "2h"), "unknown field 'lifetme' of deploy"),
        (("deploy", "--model", "M", "--lifetme", "2h"), "Did you mean 'lifetime'?"),
        (("deploy", "--model", "M", "--lifetime", "soon"), "lifetime is 'soon': it must be a time such as 90s"),
        (("deploy", "--model", "M", "--when_over", "delete"), "when_over needs a lifetime"),
        (("deploy", "--model", "M", "--service", "sagemker"), "Did you mean 'sagemaker'?"),
        (("deploy", "--model", "M", "--max-usd", "5"), "this machine has no price"),
        (("deploy", "--model", "M", "--max-billable-seconds", "60"), "needs a lifetime: set --lifetime 60s."),
        (("deploy", "--model", "M", "--service", "sagemaker"), "--service sagemaker needs --machine"),
        (("deploy", "--model", "M", "--machine", "ml.g4dn.xlarge"), "--service local runs only on this machine"),
        (
            ("deploy", "--model", "M", "--name", "a b"),
            "name is 'a b': an endpoint's name has up to 63 letters and digits",
        ),
        (("deploy", "--model", "M", "--replace", "yes"), "replace is 'yes': it must be one of true, false."),
        (("deploy", "--model", "M", "--machines", "2"), "machines is '2': it must be a whole number from 1 to 1."),
        (("deploy", "--model", "M", "--precision", "fp33"), "precision is 'fp33'"),
        (("deploy", "--model", "M", "--aws.regon", "x"), "Did you mean 'aws.region'?"),
        (("deploy", "--model", "M", "--aws.region", "eu-west-1"), "--aws.*, --image and --ami need --service"),
        (("deploy", "--model", "M", "--host", "0.0.0.0"), "--host 0.0.0.0 lets other machines use the server"),
        (("deploy", "--model", "M", "--token-file", "none"), "none cannot be read: no such file or directory."),
        (
            ("deploy", "--model", "M", "--service", "sagemaker", "--machine", "ml.m5.xlarge", "--host", "0.0.0.0"),
            "--host needs --service local",
        ),
        (("predict", "--text", "a"), "predict needs --endpoint NAME: no endpoint was deployed from this machine."),
        (("predict", "--endpoint", "a", "--text", "a", "--inputs", "b"), "--text and --inputs cannot be combined"),
        (("predict", "--endpoint", "a", "--inputs", "{"), "inputs is not JSON"),
        (("predict", "--endpoint", "../a", "--text", "b"), "endpoint is '../a': an endpoint's name"),
        (("undeploy",), "undeploy needs either --endpoint NAME or --all true."),
        (("undeploy", "--endpoint", "a", "--all", "true"), "undeploy needs either --endpoint NAME or --all true."),
        (("endpoints", "--region", "a"), "unknown field 'region' of endpoints"),
        (("endpoint",), "unknown command 'endpoint'"),
    ],
)
def test_wrong_input_is_reported_in_one_sentence(run: Run, model: Path, words: tuple[str, ...], sentence: str) -> None:
    code, out, err = run(*(model if word == "M" else word for word in words))
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert sentence in err
    assert err.count("\n") == 1


def test_a_missing_endpoint_is_reported(run: Run) -> None:
    for words in (("predict", "--endpoint", "a", "--text", "b"), ("undeploy", "--endpoint", "a")):
        assert run(*words) == (1, "", "error: local endpoint 'a' does not exist.\n")
    assert run("undeploy", "--all", "true")[:2] == (0, "Deleted: 0\n")


def test_an_endpoint_answers_until_it_is_undeployed(run: Run, model: Path, tmp_path: Path) -> None:
    code, out, _ = run("deploy", "--model", model, "--name", "winter", "--lifetime", "1s")
    assert code == 0
    assert "Endpoint: winter (local, InService)" in out
    time.sleep(1)

    # The next command of any kind reports the end of the lifetime.
    code, out, err = run("predict", "--text", "Winter is coming and it will be dark soon.")
    assert code == 0
    (answer,) = json.loads(out)
    assert answer["label"].startswith("LABEL_")
    assert "Endpoint winter (local) is past its lifetime" in err
    assert "undeploy --endpoint winter" in err

    request = {"inputs": ["a", "b"], "parameters": {"top_k": 2}}
    code, out, _ = run("predict", "--endpoint", "winter", "--inputs", json.dumps(request))
    assert [len(each) for each in json.loads(out)] == [2, 2]
    code, out, err = run("predict", "--endpoint", "winter", "--inputs", "3")
    assert (code, out) == (2, "")
    assert "endpoint winter rejected the request with status 400: inputs must be" in err
    code, out, err = run("predict", "--endpoint", "wintr", "--text", "a")
    assert (code, "Did you mean 'winter'?" in err) == (1, True)

    code, out, _ = run("endpoints")
    assert "winter" in out
    assert "ended " in out
    code, out, _ = run("undeploy", "--endpoint", "winter")
    assert (code, out) == (0, "winter: deleted\n")
    assert read_records() == []
    assert [path for path in (tmp_path / "home").rglob("*") if path.is_file()] == []


@pytest.mark.slow
def test_the_next_command_deletes_an_endpoint_whose_lifetime_ended(run: Run, model: Path, tmp_path: Path) -> None:
    for lifetime in ("1h", "1s"):
        run("deploy", "--model", model, "--name", "a", "--lifetime", lifetime, "--when_over", "delete")
    (record,) = read_records()
    assert record.expires is not None
    while not record.is_over():
        time.sleep(0.2)
    code, _, err = run("jobs", "list")
    assert code == 0
    assert "Endpoint a (local) was deleted: its lifetime ended" in err
    assert read_records() == []
    assert list((tmp_path / "home" / "endpoints").glob("a")) == []


@pytest.mark.slow
def test_ctrl_c_during_a_deploy_leaves_nothing(model: Path, tmp_path: Path) -> None:
    environment = os.environ | {"TRAINFARE_HOME": str(tmp_path)}
    words = [sys.executable, "-m", "experiments", "deploy", "--model", str(model), "--name", "a"]
    for number in (signal.SIGINT, signal.SIGTERM):
        with subprocess.Popen(
            words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout
            assert process.stderr
            assert "Starting endpoint a" in process.stdout.readline()
            process.send_signal(number)
            assert process.wait(300) == 130
            assert process.stderr.read() == "error: interrupted; everything was undone.\n"
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_an_unreadable_note_is_ignored(run: Run) -> None:
    record = EndpointRecord(service="local", name="a", expires=1.0, when_over="delete")
    record.save()
    record.path.write_text("{")
    assert run("endpoints")[0] == 0
    # The note of an endpoint that another process deleted is removed.
    record.save()
    assert run("endpoints")[0] == 0
    assert read_records() == []


def test_the_list_shows_lifetime_and_cost() -> None:
    now = datetime(2026, 11, 22, 12, tzinfo=UTC)
    state = EndpointState(
        name="winter",
        service="sagemaker",
        status="InService",
        identity="0123",
        address="arn:aws:sagemaker:eu-west-1:1:endpoint/winter",
        machine="ml.g4dn.xlarge",
        machines=2,
        created=now - timedelta(hours=3),
        expires=now + timedelta(hours=1),
        when_over="delete",
        price=Price(usd_per_hour=0.5, source="AWS price list", date="2026-11-01"),
    )
    console = Console(width=300)
    with console.capture() as output:
        console.print(_table([state], now))
    row = output.get().splitlines()[1]
    # 3 hours of two machines at 0.5 USD each.
    for part in ("sagemaker, 2 x ml.g4dn.xlarge", "3.00", "until 2026-11-22 13:00, then delete", state.address):
        assert part in row


@pytest.mark.parametrize(("text", "expected"), [("90s", 90), ("30m", 1800), ("1.5h", 5400), ("7d", 604_800)])
def test_lifetimes_are_converted_to_seconds(text: str, expected: float) -> None:
    assert read_seconds("lifetime", text) == expected
