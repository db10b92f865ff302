"""The verbs of endpoints on this machine: wrong input, and an endpoint from its deployment to its end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.__main__ import main
from experiments.running.options import read_seconds
from tests.support.answers import checked
from tests.support.models.task_models import made

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
        (("deploy", "--model", "M", "--wit", "2h"), "unknown field 'wit' of deploy: it must be one of run, model,"),
        (("deploy", "--model", "M", "--timeout", "long"), "timeout is 'long': it must be a time such as 90s"),
        (("deploy", "--model", "M", "--service", "sagemaker"), "--service sagemaker needs --machine"),
        (
            ("deploy", "--model", "M", "--machine.instance_type", "ml.g4dn.xlarge"),
            "--service local runs only on this machine",
        ),
        (
            ("deploy", "--model", "M", "--machine.instance_count", "2"),
            "machine.instance_count is '2': it must be a whole number from 1 to 1.",
        ),
        (("deploy", "--model", "M", "--aws.region", "eu-west-1"), "--aws.region needs --service sagemaker"),
        (
            (
                "deploy",
                "--model",
                "M",
                "--service",
                "sagemaker",
                "--machine.instance_type",
                "ml.m5.xlarge",
                "--host",
                "0.0.0.0",
            ),
            "--host needs --service local",
        ),
        (("predict", "--text", "a"), "predict needs --endpoint NAME, or --file."),
        (("predict", "--endpoint", "a", "--text", "a", "--inputs", "b"), "--text and --inputs cannot be combined"),
        (("predict", "--endpoint", "a", "--inputs", "{"), "inputs is not JSON"),
        (("undeploy",), "undeploy needs either --endpoint NAME or --all."),
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
        assert run(*words) == (1, "", "error: local endpoint 'a' does not exist. On AWS: --service sagemaker.\n")
    assert run("undeploy", "--all")[:2] == (0, "Deleted: 0\n")


def test_an_endpoint_answers_until_it_is_undeployed(run: Run, model: Path, tmp_path: Path) -> None:
    code, out, _ = run("deploy", "--model", model, "--endpoint", "winter")
    assert code == 0
    assert "Endpoint: winter (local, InService)" in out
    assert out.endswith("Delete it: trainfare undeploy --endpoint winter\n")
    winter = ("--endpoint", "winter")
    code, out, _ = run("predict", *winter, "--text", "Winter is coming and it will be dark soon.", "--format", "json")
    assert code == 0
    assert checked("predict", out)["answer"][0]["label"][:6] == "LABEL_"
    code, out, _ = run("deploy", "--model", model, *winter, "--format=json")
    assert checked("endpoint", out)["status"] == "InService"
    code, out, _ = run("predict", *winter, "--text", "Winter is coming and it will be dark soon.")
    assert (code, json.loads(out)[0]["label"][:6]) == (0, "LABEL_")
    words = ("--inputs", '["a", "b"]', "--parameters", '{"top_k": 2}')
    code, out, _ = run("predict", "--endpoint", "winter", *words)
    assert [len(each) for each in json.loads(out)] == [2, 2]
    code, out, err = run("predict", "--endpoint", "winter", "--inputs", "3")
    assert (code, out) == (2, "")
    assert "Endpoint winter rejected the request with status 400: inputs must be" in err
    code, out, err = run("predict", "--endpoint", "wintr", "--text", "a")
    assert (code, "Did you mean 'winter'?" in err) == (1, True)
    assert "winter" in run("endpoints")[1]
    [listed] = checked("endpoints", run("endpoints", "--format", "json")[1])["endpoints"]
    assert (listed["endpoint"], listed["status"]) == ("winter", "InService")
    code, out, err = run("undeploy", "--endpoint", "winter", "--format", "json")
    assert (code, checked("undeploy", out), err) == (0, {"deleted": ["winter"], "failed": {}}, "winter: deleted\n")
    assert [path for path in (tmp_path / "home").rglob("*") if path.is_file()] == []


def test_times_are_converted_to_seconds() -> None:
    times = {"90s": 90, "30m": 1800, "1.5h": 5400, "7d": 604_800}
    assert {text: read_seconds("wait", text) for text in times} == times
