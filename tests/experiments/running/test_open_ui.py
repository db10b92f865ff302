"""The verb `ui`: which experiment it shows, its server on a free port, and how it stops."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from mlflow import MlflowClient

from experiments.running.write_report import ui
from tests.conftest import ROOT
from tests.support.fork_server.interpreter import INTERPRETER
from tests.support.services.following import until
from tests.support.shadowing_folder import ShadowingFolder
from tracking.queries.mlflow_ui import experiment_to_show, run_table
from tracking.server.store import open_store
from training.contract.errors import InputError


def lives(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def group(client: MlflowClient, experiment_id: str, name: str, start_time: int) -> None:
    tags = {"platform.kind": "group", "platform.group": f"{name}-1", "platform.experiment": name}
    client.create_run(experiment_id, tags=tags, start_time=start_time)


@pytest.fixture
def experiment_ids(tracking_uri: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Experiment ids by name. Two experiments have a comparison of `demo`, and a third a later one of `emotion`."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_uri)
    client = MlflowClient(tracking_uri)
    ids = {name: str(client.create_experiment(name)) for name in ("first", "second", "team.emotion", "empty")}
    group(client, ids["first"], "demo", 1000)
    group(client, ids["second"], "demo", 2000)
    group(client, ids["team.emotion"], "emotion", 3000)
    return ids


def test_the_ui_shows_the_named_or_latest_experiment(experiment_ids: dict[str, str]) -> None:
    shown = {None: "team.emotion", "demo": "second", "experiments/demo.yaml": "second", "empty": "empty"}
    store = open_store()
    for name, expected in shown.items():
        assert experiment_to_show(store, name)[0] == experiment_ids[expected]
    with pytest.raises(InputError, match=r"experiment 'emty' does not exist .*\. Did you mean 'empty'\?$"):
        ui({"experiment": "emty"})


def test_a_missing_database_is_reported_and_not_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"the tracking database .*mlflow\.db does not exist"):
        ui({})
    assert list(tmp_path.iterdir()) == []


def test_a_tracking_server_serves_its_own_ui(
    tracking_server: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The printed address has no name or password."""
    client = MlflowClient(tracking_server.uri)
    group(client, "0", "demo", 1000)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_server.uri.replace("//", "//user:secret@"))
    for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert ui({"experiment": "demo"}) == 0
    assert capsys.readouterr().out == f"MLflow: {run_table(tracking_server.uri, '0', 'demo-1')}\n"
    assert "mlflow.sharedViewState.demo-1" in client.get_experiment("0").tags


@pytest.mark.slow
def test_the_ui_of_a_database_runs_until_interrupted(
    experiment_ids: dict[str, str], tracking_uri: str, tmp_path: Path
) -> None:
    """The UI answers at the printed address and opens a browser if there is a display. A signal stops all of it."""
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {tmp_path / "opened"}\n')
    browser.chmod(0o755)
    settings = {"MLFLOW_TRACKING_URI": tracking_uri, "TRAINFARE_HOME": str(tmp_path), "DISPLAY": ":77"}
    folder = ShadowingFolder(tmp_path / "users")
    process = subprocess.Popen(
        [INTERPRETER, str(ROOT / "src" / "trainfare.py"), "ui", "--experiment", "demo"],
        cwd=folder.path,
        env={**os.environ, **settings, "BROWSER": f"{browser} %s"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout
    output = []
    try:
        for line in process.stdout:
            output.append(line)
            if "Ctrl-C" in line:
                break
        match = re.search(r"MLflow: (http://127\.0\.0\.1:\d+)(/#/experiments/(\d+)/runs\S+)", "".join(output))
        assert match, output
        assert match[3] == experiment_ids["second"]
        with urllib.request.urlopen(f"{match[1]}/api/2.0/mlflow/experiments/get?experiment_id={match[3]}") as answer:
            assert json.load(answer)["experiment"]["name"] == "second"
        while not (tmp_path / "opened").exists() or not (tmp_path / "opened").read_text():
            assert process.poll() is None
            time.sleep(0.05)
        assert (tmp_path / "opened").read_text() == f"{match[1]}{match[2]}"
        started = psutil.Process(process.pid).children(recursive=True)
        assert started
    finally:
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=480)
    assert process.returncode == 0, rest
    assert rest.strip() == "Stopped MLflow's UI."
    assert folder.imported() == ""
    until(lambda: not any(map(lives, started)))
