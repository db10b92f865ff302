"""References of a real tracking store to jobs and data: open, ended, deleted and unknown ones, and errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from mlflow import MlflowClient

from tests.support.tracking.tracked import Tracked
from tracking.groups.run_references import RunReferences, find_references, mark_models_deleted
from tracking.server.store import Store
from training.contract.errors import TrackingError

KEY = "a1" * 16


def store_of(client: MlflowClient) -> Store:
    return Store(client, retry_seconds=0.5, echo=lambda _: None)


def parent(tracked: Tracked, group: str, state: str, **tags: str) -> str:
    """Add the parent run of a group."""
    extra = {f"platform.{name}": value for name, value in tags.items()}
    fields = {"kind": "group", "group": group, "group_state": state, "experiment": "demo"}
    common = {f"platform.{name}": value for name, value in fields.items()}
    return str(tracked.client.create_run(tracked.experiment_id, tags={**common, **extra}).info.run_id)


def job(tracked: Tracked, group: str, name: str, status: str | None = "FINISHED", **tags: str) -> str:
    """Add a job's run, with its log if the job has ended."""
    extra = {f"platform.{tag}": value for tag, value in tags.items()}
    named = {"platform.group": group, "platform.job_name": name}
    run_id = tracked.job("none", status=status, tags={**named, **extra})
    if status:
        tracked.client.log_text(run_id, "said", "log.txt")
    return run_id


def references(tracked: Tracked, *names: str, keys: tuple[str, ...] = ()) -> RunReferences:
    return find_references(store_of(tracked.client), job_names=names, with_log=names, data_keys=keys)


def test_ended_running_and_unknown_jobs(tracked: Tracked) -> None:
    parent(tracked, "g-1", "closed")
    job(tracked, "g-1", "g-1-a")
    job(tracked, "g-1", "g-1-b", "FAILED")
    job(tracked, "g-1", "g-1-c", "KILLED")
    job(tracked, "g-1", "g-1-d", None)
    job(tracked, "g-2", "alone")
    result = references(tracked, "g-1-a", "g-1-b", "g-1-c", "g-1-d", "alone", "g-1-e", "nobody").jobs
    assert {name: (each.has_ended, each.is_completed) for name, each in result.items()} == {
        "g-1-a": (True, True),
        "g-1-b": (True, False),
        "g-1-c": (True, False),
        "g-1-d": (False, False),
        "alone": (True, True),
    }
    assert {name: each.experiment for name, each in result.items()} == dict.fromkeys(result, "demo") | {"alone": ""}
    assert not any(each.is_deleted for each in result.values())


def test_a_log_is_found_only_where_it_was_logged(tracked: Tracked) -> None:
    parent(tracked, "g-1", "closed")
    job(tracked, "g-1", "g-1-a")
    tracked.job("none", tags={"platform.group": "g-1", "platform.job_name": "g-1-b"})
    result = find_references(
        store_of(tracked.client), job_names=["g-1-a", "g-1-b"], with_log=["g-1-a", "g-1-b"], data_keys=[]
    ).jobs
    assert {name: each.has_log for name, each in result.items()} == {"g-1-a": True, "g-1-b": False}


def test_deleted_runs_differ_from_unknown_ones(tracked: Tracked) -> None:
    parent(tracked, "g-1", "closed")
    deleted = [job(tracked, "g-1", "g-1-a"), job(tracked, "g-1", "g-1-b"), job(tracked, "gone", "alone")]
    job(tracked, "g-1", "g-1-b")  # a second run, which is not deleted
    for run_id in deleted:
        tracked.client.delete_run(run_id)
    result = references(tracked, "g-1-a", "g-1-b", "alone", "nobody").jobs
    assert {name: each.is_deleted for name, each in result.items()} == {"g-1-a": True, "g-1-b": False, "alone": True}


def test_a_deleted_experiment_deletes_its_runs(tracked: Tracked) -> None:
    parent(tracked, "g-1", "open")
    job(tracked, "g-1", "g-1-a", data_key=KEY)
    tracked.client.delete_experiment(tracked.experiment_id)
    result = references(tracked, "g-1-a", keys=(KEY,))
    assert result.jobs["g-1-a"].is_deleted
    assert result.jobs["g-1-a"].experiment == "demo"
    assert result.open_groups == {}
    assert result.data_keys == {KEY}


def test_open_groups_name_the_inputs_of_their_jobs(tracked: Tracked) -> None:
    planned = parent(tracked, "g-open", "open")
    tracked.client.log_text(planned, '{"jobs": [{"channels": "file:///home/staged/not-yet-started"}]}', "plan.json")
    job(tracked, "g-open", "g-open-a", None, data_key=KEY)
    parent(tracked, "g-resumed", "continued")
    parent(tracked, "g-resumed", "open")
    parent(tracked, "g-closed", "closed")
    tracked.client.delete_run(parent(tracked, "g-deleted", "open"))
    result = references(tracked).open_groups
    assert set(result) == {"g-open", "g-resumed"}
    assert "not-yet-started" in result["g-open"]
    assert KEY in result["g-open"]
    assert KEY not in result["g-resumed"]


@pytest.mark.parametrize("content", ["", "[1, 2]", "{}", '{"jobs": [', "\ufffd"])
def test_a_damaged_plan_of_an_open_group_is_an_error(tracked: Tracked, content: str) -> None:
    """It may name any folder."""
    run_id = parent(tracked, "g-open", "open")
    tracked.client.log_text(run_id, content, "plan.json")
    with pytest.raises(TrackingError, match=rf"The plan\.json of run {run_id} is damaged"):
        references(tracked)


def test_data_keys_of_deleted_runs_are_found(tracked: Tracked) -> None:
    job(tracked, "g-1", "g-1-a", data_key=KEY)
    tracked.client.delete_run(job(tracked, "g-1", "g-1-b", data_key="b" * 32))
    assert references(tracked, keys=(KEY, "b" * 32, "c" * 32)).data_keys == {KEY, "b" * 32}


def test_groups_are_read_in_pages(tracked: Tracked) -> None:
    for number in range(8):
        parent(tracked, f"g-{number}", "open" if number % 2 else "closed")
        job(tracked, f"g-{number}", f"g-{number}-a")
    names = [f"g-{number}-a" for number in range(8)]
    result = find_references(store_of(tracked.client), job_names=names, with_log=[], data_keys=[], page_runs=3)
    assert len(result.jobs) == 8
    assert set(result.open_groups) == {"g-1", "g-3", "g-5", "g-7"}


def test_the_address_of_a_deleted_model_is_removed(tracked: Tracked) -> None:
    parent(tracked, "g-1", "closed")
    run_id = job(tracked, "g-1", "g-1-a", model_uri="file:///home/outputs/g-1-a/output/model.tar.gz")
    result = references(tracked, "g-1-a").jobs["g-1-a"]
    assert result.model_uris == {run_id: "file:///home/outputs/g-1-a/output/model.tar.gz"}
    mark_models_deleted(store_of(tracked.client), result)
    tags = tracked.client.get_run(run_id).data.tags
    assert "platform.model_uri" not in tags
    assert tags["platform.model_deleted"].endswith(" file:///home/outputs/g-1-a/output/model.tar.gz")
    assert references(tracked, "g-1-a").jobs["g-1-a"].model_uris == {}
    mark_models_deleted(store_of(tracked.client), references(tracked, "g-1-a").jobs["g-1-a"])  # again, as after a kill


def test_a_server_that_does_not_answer_is_an_error() -> None:
    store = store_of(MlflowClient("http://127.0.0.1:9"))
    with pytest.raises(TrackingError, match=r"http://127\.0\.0\.1:9 has not answered"):
        find_references(store, job_names=["g-1-a"], with_log=[], data_keys=[])


def test_artifacts_that_cannot_be_read_are_an_error(tracking_uri: str, tmp_path: Path) -> None:
    """A plan that cannot be read may name any input."""
    client = MlflowClient(tracking_uri)
    experiment_id = client.create_experiment("away", artifact_location="nowhere-at-all://bucket/artifacts")
    tags = {"platform.kind": "group", "platform.group": "g-1", "platform.group_state": "open"}
    run_id = client.create_run(experiment_id, tags=tags).info.run_id
    with pytest.raises(TrackingError, match=f"artifacts of run {run_id} cannot be read"):
        find_references(store_of(client), job_names=[], with_log=[], data_keys=[])
