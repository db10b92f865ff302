"""Open the one run of a job while claims of other launchers exist."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from mlflow import MlflowClient

from state.home import home, home_id
from tracking.groups import group
from tracking.groups.group import CLAIM, DUPLICATE, KIND, Subject, find_or_open, launch_lock
from tracking.server.store import Store, open_store

IDENTITY = {"platform.group": "g", "platform.job_name": "g-a0r0"}


@pytest.fixture
def store(tracking_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("TRAINFARE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(group, "DEAD_SECONDS", 600.0)  # longer than any write on a busy machine
    return open_store(tracking_uri)


def subject(store: Store) -> Subject:
    return Subject(store.client.create_experiment("demo"), IDENTITY, {**IDENTITY, KIND: "job"})


def rival(store: Store, of: Subject, claimed_by: str, state: str = "active", **tags: str) -> str:
    """Create the claim of another launcher and return its run's id."""
    own = {**of.tags, KIND: f"{CLAIM} {state} {claimed_by} 1", **tags}
    return str(store.client.create_run(of.experiment_id, tags=own).info.run_id)


def kind(client: MlflowClient, run_id: str) -> str:
    return str(client.get_run(run_id).data.tags[KIND])


def open_job(store: Store, of: Subject) -> str:
    with launch_lock():
        return str(find_or_open(store, of).info.run_id)


def test_a_run_is_opened_once(store: Store) -> None:
    job = subject(store)
    first = open_job(store, job)
    assert kind(store.client, first) == "job"
    assert open_job(store, job) == first


def test_a_claim_of_a_killed_launcher_of_the_same_home_does_not_delay(store: Store) -> None:
    job = subject(store)
    left = rival(store, job, home_id(home()))
    started = time.monotonic()
    opened = open_job(store, job)
    assert time.monotonic() - started < group.DEAD_SECONDS / 2
    assert (kind(store.client, opened), kind(store.client, left)) == ("job", DUPLICATE)
    assert store.client.get_run(left).info.status == "KILLED"


def test_a_claim_of_a_killed_launcher_elsewhere_is_waited_for(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "DEAD_SECONDS", 1.0)
    job = subject(store)
    left = rival(store, job, "another-home")
    started = time.monotonic()
    opened = open_job(store, job)
    assert time.monotonic() - started >= 1.0
    assert (kind(store.client, opened), kind(store.client, left)) == ("job", DUPLICATE)


def test_the_run_of_another_machine_is_used_once_it_is_open(store: Store) -> None:
    """The other launcher's claim is active, and becomes the run while this launcher waits."""
    job = subject(store)
    other = rival(store, job, "another-home")
    later = threading.Timer(1.0, store.client.set_tag, (other, KIND, "job"))
    later.start()
    try:
        assert open_job(store, job) == other
    finally:
        later.join()
    [own] = [run for run in store.client.search_runs([job.experiment_id]) if run.info.run_id != other]
    assert own.data.tags[KIND] == DUPLICATE


def test_launchers_of_many_homes_open_one_run(tracking_uri: str, store: Store) -> None:
    """Eight launchers that share no lock open the run of one job at the same moment, five times."""
    experiment = subject(store).experiment_id
    for number in range(5):
        identity = {**IDENTITY, "platform.job_name": f"j{number}"}
        job, opened, together = Subject(experiment, identity, {**identity, KIND: "job"}), [], threading.Barrier(8)

        def launch(job: Subject = job, opened: list[str] = opened, together: threading.Barrier = together) -> None:
            own = Store(MlflowClient(tracking_uri))
            together.wait()
            opened.append(str(find_or_open(own, job, claimed_by=str(threading.get_ident())).info.run_id))

        threads = [threading.Thread(target=launch) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(opened) == 8
        assert len(set(opened)) == 1
        query = f"tags.\"platform.job_name\" = 'j{number}' and tags.\"platform.kind\" = 'job'"
        assert [run.info.run_id for run in store.client.search_runs([experiment], query)] == [opened[0]]
