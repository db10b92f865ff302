"""What a real tracking store says of jobs and data: open, ended, deleted, unknown; and who cannot be asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from mlflow import MlflowClient

from tests.support.tracking.tracked import Tracked
from tracking.groups.run_references import Told, ask, forget_models
from tracking.server.store import Store
from training.contract.errors import TrackingError

KEY = "a1" * 16


def store_of(client: MlflowClient) -> Store:
    return Store(client, retry_seconds=0.5, say=lambda _: None)


def parent(tracked: Tracked, group: str, state: str, **tags: str) -> str:
    """Add the parent run of a group."""
    given = {f"platform.{name}": value for name, value in tags.items()}
    found = {"kind": "group", "group": group, "group_state": state, "experiment": "demo"}
    common = {f"platform.{name}": value for name, value in found.items()}
    return str(tracked.client.create_run(tracked.experiment_id, tags={**common, **given}).info.run_id)


def job(tracked: Tracked, group: str, name: str, status: str | None = "FINISHED", **tags: str) -> str:
    """Add a job's run, with its log where it has ended."""
    given = {f"platform.{tag}": value for tag, value in tags.items()}
    named = {"platform.group": group, "platform.job_name": name}
    run_id = tracked.job("none", status=status, tags={**named, **given})
    if status:
        tracked.client.log_text(run_id, "said", "log.txt")
    return run_id


def asked(tracked: Tracked, *names: str, keys: tuple[str, ...] = ()) -> Told:
    return ask(store_of(tracked.client), job_names=names, with_log=names, data_keys=keys)


def test_ended_running_and_unknown_jobs(tracked: Tracked) -> None:
    parent(tracked, "g-1", "closed")
    job(tracked, "g-1", "g-1-a")
    job(tracked, "g-1", "g-1-b", "FAILED")
    job(tracked, "g-1", "g-1-c", "KILLED")
    job(tracked, "g-1", "g-1-d", None)
    job(tracked, "g-2", "alone")
    found = asked(tracked, "g-1-a", "g-1-b", "g-1-c", "g-1-d", "alone", "g-1-e", "nobody").jobs
    assert {name: (each.has_ended, each.is_completed) for name, each in found.items()} == {
        "g-1-a": (True, True),
        "g-1-b": (True, False),
        "g-1-c": (True, False),
        "g-1-d": (False, False),
        "alone": (True, True),
    }
    assert {name: each.experiment for name, each in found.items()} == dict.fromkeys(found, "demo") | {"alone": ""}
    assert not any(each.is_deleted for each in found.values())


def test_the_log_counts_where_it_is(tracked: Tracked) -> None:
    parent(tracked, "g-1", "closed")
    job(tracked, "g-1", "g-1-a")
    tracked.job("none", tags={"platform.group": "g-1", "platform.job_name": "g-1-b"})
    found = ask(store_of(tracked.client), job_names=["g-1-a", "g-1-b"], with_log=["g-1-a", "g-1-b"], data_keys=[]).jobs
    assert {name: each.has_log for name, each in found.items()} == {"g-1-a": True, "g-1-b": False}


def test_deleted_runs_are_told_from_unknown_ones(tracked: Tracked) -> None:
    parent(tracked, "g-1", "closed")
    deleted = [job(tracked, "g-1", "g-1-a"), job(tracked, "g-1", "g-1-b"), job(tracked, "gone", "alone")]
    job(tracked, "g-1", "g-1-b")  # once more, and this one is there
    for run_id in deleted:
        tracked.client.delete_run(run_id)
    found = asked(tracked, "g-1-a", "g-1-b", "alone", "nobody").jobs
    assert {name: each.is_deleted for name, each in found.items()} == {"g-1-a": True, "g-1-b": False, "alone": True}


def test_a_deleted_experiment_deletes_its_runs(tracked: Tracked) -> None:
    parent(tracked, "g-1", "open")
    job(tracked, "g-1", "g-1-a", data_key=KEY)
    tracked.client.delete_experiment(tracked.experiment_id)
    found = asked(tracked, "g-1-a", keys=(KEY,))
    assert found.jobs["g-1-a"].is_deleted
    assert found.jobs["g-1-a"].experiment == "demo"
    assert found.open_groups == {}
    assert found.data_keys == {KEY}


def test_open_groups_tell_what_their_jobs_read(tracked: Tracked) -> None:
    planned = parent(tracked, "g-open", "open")
    tracked.client.log_text(planned, '{"jobs": [{"channels": "file:///home/staged/not-yet-started"}]}', "plan.json")
    job(tracked, "g-open", "g-open-a", None, data_key=KEY)
    parent(tracked, "g-taken-up", "continued")
    parent(tracked, "g-taken-up", "open")
    parent(tracked, "g-closed", "closed")
    tracked.client.delete_run(parent(tracked, "g-deleted", "open"))
    found = asked(tracked).open_groups
    assert set(found) == {"g-open", "g-taken-up"}
    assert "not-yet-started" in found["g-open"]
    assert KEY in found["g-open"]
    assert KEY not in found["g-taken-up"]


def test_keys_of_data(tracked: Tracked) -> None:
    job(tracked, "g-1", "g-1-a", data_key=KEY)
    tracked.client.delete_run(job(tracked, "g-1", "g-1-b", data_key="b" * 32))
    assert asked(tracked, keys=(KEY, "b" * 32, "c" * 32)).data_keys == {KEY, "b" * 32}


def test_more_than_a_page_of_groups(tracked: Tracked) -> None:
    for number in range(8):
        parent(tracked, f"g-{number}", "open" if number % 2 else "closed")
        job(tracked, f"g-{number}", f"g-{number}-a")
    names = [f"g-{number}-a" for number in range(8)]
    found = ask(store_of(tracked.client), job_names=names, with_log=[], data_keys=[], page_runs=3)
    assert len(found.jobs) == 8
    assert set(found.open_groups) == {"g-1", "g-3", "g-5", "g-7"}


def test_a_model_that_is_deleted_is_not_named_any_more(tracked: Tracked) -> None:
    parent(tracked, "g-1", "closed")
    run_id = job(tracked, "g-1", "g-1-a", model_uri="file:///home/outputs/g-1-a/output/model.tar.gz")
    found = asked(tracked, "g-1-a").jobs["g-1-a"]
    assert found.model_uris == {run_id: "file:///home/outputs/g-1-a/output/model.tar.gz"}
    forget_models(store_of(tracked.client), found)
    tags = tracked.client.get_run(run_id).data.tags
    assert "platform.model_uri" not in tags
    assert tags["platform.model_deleted"].endswith(" file:///home/outputs/g-1-a/output/model.tar.gz")
    assert asked(tracked, "g-1-a").jobs["g-1-a"].model_uris == {}
    forget_models(store_of(tracked.client), asked(tracked, "g-1-a").jobs["g-1-a"])  # killed in between, and again


def test_a_server_that_does_not_answer_is_an_error() -> None:
    store = store_of(MlflowClient("http://127.0.0.1:9"))
    with pytest.raises(TrackingError, match=r"http://127\.0\.0\.1:9 has not answered"):
        ask(store, job_names=["g-1-a"], with_log=[], data_keys=[])


def test_artifacts_that_cannot_be_read_are_an_error(tracking_uri: str, tmp_path: Path) -> None:
    """A plan that is listed and cannot be read may name anything."""
    client = MlflowClient(tracking_uri)
    experiment_id = client.create_experiment("away", artifact_location="nowhere-at-all://bucket/artifacts")
    tags = {"platform.kind": "group", "platform.group": "g-1", "platform.group_state": "open"}
    run_id = client.create_run(experiment_id, tags=tags).info.run_id
    with pytest.raises(TrackingError, match=f"artifacts of run {run_id} cannot be read"):
        ask(store_of(client), job_names=[], with_log=[], data_keys=[])
