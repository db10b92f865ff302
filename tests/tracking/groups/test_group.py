"""A command that is repeated continues its open group."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.tracking.planned_jobs import planned
from tracking.groups.group import SEED_OFFSET, child_runs, close_group, open_group, planned_group
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


def test_a_new_comparison_has_seeds_that_no_group_of_its_experiment_has(store: Store) -> None:
    def opened(verb: str, name: str = "demo") -> int:
        assert planned_group(store, name, verb, f"{verb} {name}")[1] == planned_group(store, name, verb, None)[1]
        group = open_group(store, experiment_name=name, verb=verb, key=f"{verb} {name}")
        close_group(store, group, "FINISHED")
        return group.seed_offset

    assert [opened(verb) for verb in ("probe", "compare", "sweep", "train")] == [0, 0, 2_000, 0]
    store.call(store.client.delete_run, store.client.search_runs(["1"], max_results=1)[0].info.run_id)
    assert [opened("compare"), opened("compare", "another"), opened("sweep"), opened("train")] == [4_000, 0, 6_000, 0]
    assert opened("compare", "another") == 2_000
    # A sweep is joined although it has ended.
    assert open_group(store, experiment_name="demo", verb="sweep", key="sweep demo", joins=True).seed_offset == 2_000


def test_the_seeds_of_a_group_are_fixed_when_it_opens(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    request = {"experiment_name": "demo", "verb": "compare", "key": "k"}
    close_group(store, open_group(store, **request), "FINISHED")
    first = open_group(store, **request)
    open_group(store, **{**request, "key": "another"})
    assert planned_group(store, **request) == (first.id, 2_000)
    assert open_group(store, **request) == replace(first, continued=True)
    # `mlflow run` opens a run of its own.
    own = str(store.client.create_run(first.experiment_id).info.run_id)
    monkeypatch.setenv("MLFLOW_RUN_ID", own)
    resumed = open_group(store, **request)
    assert (resumed.run_id, resumed.seed_offset) == (own, 2_000)
    monkeypatch.delenv("MLFLOW_RUN_ID")
    # Groups of earlier versions have no tag.
    store.client.delete_tag(own, SEED_OFFSET)
    assert open_group(store, **request).seed_offset == 0
