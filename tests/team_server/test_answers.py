"""Errors of the team server for unknown users, wrong host names and missing permissions."""

from __future__ import annotations

import http.client
import re
from pathlib import Path

import pytest
from mlflow import MlflowClient

from experiments.__main__ import main
from tests.conftest import ROOT
from tests.support.tracking.team import Team, documented
from tracking.server.store import Store
from training.contract.errors import NotAllowed

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINFARE_HOME", str(tmp_path / "home"))


def report_as(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str]:
    """Return the exit code and the standard error of `report`."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    code = main(["report", "--group", "any"])
    return code, capsys.readouterr().err


def test_a_wrong_password_is_refused(
    team: Team, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, output = report_as(team.as_user("ada", "not the password"), monkeypatch, capsys)
    assert code == 1
    assert output == (
        f"error: The tracking server {team.uri} does not accept the password of user 'ada' (401): "
        "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD must be those of an account of this server. "
        "No report was made.\n"
    )


def test_a_missing_user_name_is_refused(
    team: Team, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("USERNAME", "PASSWORD"):
        monkeypatch.delenv(f"MLFLOW_TRACKING_{name}", raising=False)
    code, output = report_as({"MLFLOW_TRACKING_URI": team.uri}, monkeypatch, capsys)
    assert (code, "requires a user name (401)" in output, output.count("\n")) == (1, True, 1)


def test_a_wrong_host_name_is_refused(
    team: Team, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = {"MLFLOW_TRACKING_URI": f"http://localhost:{team.port}"}
    code, output = report_as(team.as_user("ada") | elsewhere, monkeypatch, capsys)
    assert code == 1
    message = f"does not accept the host name 'localhost:{team.port}' (403): its operator must add that name"
    assert message in output
    assert output.count("\n") == 1


@pytest.mark.parametrize(
    ("host", "origin", "method", "status"),
    [
        ("evil.example.com", None, "GET", 403),
        ("mlflow.example.com", "https://mlflow.example.com", "POST", 401),
        ("mlflow.example.com", "https://evil.example.com", "POST", 403),
    ],
)
def test_unknown_hosts_and_origins_are_refused(
    team: Team, host: str, origin: str | None, method: str, status: int
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", team.port, timeout=30)
    headers = {"Host": host, "Content-Type": "application/json"} | ({"Origin": origin} if origin else {})
    body = b'{"max_results": 1}' if method == "POST" else None
    place = "/api/2.0/mlflow/experiments/search" + ("" if body else "?max_results=1")
    connection.request(method, place, body, headers)
    assert connection.getresponse().status == status
    connection.close()


@pytest.mark.parametrize(("call", "words"), [("set_tag", ("a", "b")), ("log_text", ("text", "file.txt"))])
def test_a_write_without_permission_is_not_retried(
    call: str, words: tuple[str, str], team: Team, admin: MlflowClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = admin.get_experiment_by_name("shared")
    assert experiment
    run_id = admin.create_run(experiment.experiment_id).info.run_id
    for name, value in team.as_user("guest").items():
        monkeypatch.setenv(name, value)
    slept: list[float] = []
    store = Store(MlflowClient(team.uri), sleep=slept.append)
    assert store.call(store.client.get_run, run_id).info.run_id == run_id
    message = r"'guest' write to the experiment \(403\): the permission EDIT on it is missing"
    with pytest.raises(NotAllowed, match=message):
        store.call(getattr(store.client, call), run_id, *words)
    assert slept == []


def test_the_page_documents_every_variable_that_the_commands_take() -> None:
    commands = documented("start") + documented("auth.ini")
    page = (ROOT / "docs" / "server.md").read_text()
    assert all(f"`{name}`" in page for name in re.findall(r'"\$(\w+)"', commands))
