"""A command that is repeated continues its open group."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.tracking.planned_jobs import planned
from tracking.groups.group import child_runs, close_group, open_group
from tracking.recording.recorder import open_run
from tracking.server.store import Store, open_store


@pytest.fixture
def store(tracking_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("TRAINFARE_HOME", str(tmp_path / "home"))
    return open_store(tracking_uri)


def test_the_same_request_continues_its_open_group(store: Store, tmp_path: Path) -> None:
    first = open_group(store, experiment_name="demo", verb="compare", key="k1")
    run = open_run(store, first, planned(tmp_path, "job-1"))
    second = open_group(store, experiment_name="demo", verb="compare", key="k1")
    assert (second.id, second.run_id, second.continued) == (first.id, first.run_id, True)
    assert {name: each.info.run_id for name, each in child_runs(store, second).items()} == {"job-1": run.id}
    other = open_group(store, experiment_name="demo", verb="compare", key="k2")
    assert (other.id == first.id, other.continued) == (False, False)
    close_group(store, second, "FINISHED")
    third = open_group(store, experiment_name="demo", verb="compare", key="k1")
    assert (third.id == first.id, third.continued) == (False, False)
