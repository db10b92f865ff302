"""Errors of the team server for unknown users, wrong host names and missing permissions."""

from __future__ import annotations

import http.client
import re
from pathlib import Path

import pytest

from experiments.__main__ import main
from tests.conftest import ROOT
from tests.support.tracking.team import Team, documented

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINFARE_HOME", str(tmp_path / "home"))


def test_wrong_passwords_missing_names_and_wrong_hosts_are_refused(
    team: Team, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = {"MLFLOW_TRACKING_URI": f"http://localhost:{team.port}"}
    for variables, message in (
        ({"MLFLOW_TRACKING_URI": team.uri}, "requires a user name (401)"),
        (
            team.as_user("ada", "not the password"),
            f"error: The tracking server {team.uri} does not accept the password of user 'ada' (401): "
            "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD to an account of this server. "
            "No report was made.\n",
        ),
        (
            team.as_user("ada") | elsewhere,
            f"does not accept the host name 'localhost:{team.port}' (403): its operator must add that name",
        ),
    ):
        for name in ("USERNAME", "PASSWORD"):
            monkeypatch.delenv(f"MLFLOW_TRACKING_{name}", raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        assert main(["report", "--group", "any"]) == 1
        output = capsys.readouterr().err
        assert message in output
        assert output.count("\n") == 1


def test_unknown_hosts_and_origins_are_refused(team: Team) -> None:
    for host, origin, status in (
        ("evil.example.com", {}, 403),
        ("mlflow.example.com", {"Origin": "https://mlflow.example.com"}, 401),
        ("mlflow.example.com", {"Origin": "https://evil.example.com"}, 403),
    ):
        connection = http.client.HTTPConnection("127.0.0.1", team.port, timeout=30)
        headers = {"Host": host, "Content-Type": "application/json", **origin}
        connection.request("POST", "/api/2.0/mlflow/experiments/search", b'{"max_results": 1}', headers)
        assert connection.getresponse().status == status
        connection.close()


def test_the_page_documents_every_variable_that_the_commands_take() -> None:
    commands = documented("start") + documented("auth.ini")
    page = (ROOT / "docs" / "server.md").read_text()
    assert all(f"`{name}`" in page for name in re.findall(r'"\$(\w+)"', commands))
