"""A local service and a state folder for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.services.following import ended
from tests.support.state import DATA, State
from tests.training.services.local.conftest import harness
from tracking.server.store import open_store
from training.services.launcher import Job

__all__ = ["harness", "state"]


@pytest.fixture
def state(tracking_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[State]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_uri)
    monkeypatch.setenv("TRAINFARE_HOME", str(tmp_path / "home"))
    state = State(tmp_path, open_store(tracking_uri))
    state.stage(DATA)
    yield state
    for each in state.service.jobs(running_only=True):
        state.service.stop(each["TrainingJobName"])
        ended(Job(state.service, each["TrainingJobName"]))
