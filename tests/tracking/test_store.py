"""The patient client, against a real tracking server that stops answering."""

from __future__ import annotations

import signal
import threading

import pytest
from mlflow import MlflowClient
from mlflow.entities import Metric

from tests.conftest import TrackingServer
from tracking.store import Store, open_store
from training.errors import TrackingError


def points(first: int, last: int) -> list[Metric]:
    return [Metric("loss", 1 / step, 1_000 * step, step) for step in range(first, last + 1)]


def test_points_logged_twice_are_stored_once(tracking_uri: str) -> None:
    store = open_store(tracking_uri)
    run_id = store.call(store.client.create_run, store.call(store.client.create_experiment, "e")).info.run_id
    store.call(store.client.log_batch, run_id, metrics=points(1, 500))
    store.call(store.client.log_batch, run_id, metrics=points(1, 501))
    history = store.client.get_metric_history(run_id, "loss")
    assert [(m.step, m.value) for m in history] == [(m.step, m.value) for m in points(1, 501)]


def test_a_halted_server_delays_and_loses_nothing(
    tracking_server: TrackingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    said: list[str] = []
    store = Store(MlflowClient(tracking_server.uri), say=said.append)
    run_id = store.call(store.client.create_run, store.call(store.client.create_experiment, "e")).info.run_id
    store.call(store.client.log_batch, run_id, metrics=points(1, 10))
    tracking_server.send(signal.SIGSTOP)
    wake = threading.Timer(6, tracking_server.send, [signal.SIGCONT])
    wake.start()
    for step in range(11, 21):
        store.call(store.client.log_batch, run_id, metrics=points(step, step))
    wake.join()
    history = MlflowClient(tracking_server.database_uri).get_metric_history(run_id, "loss")
    assert [m.step for m in history] == list(range(1, 21))
    assert any("not answered" in line for line in said)


def test_a_server_that_is_not_there_is_said_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    with pytest.raises(TrackingError, match=r"http://127\.0\.0\.1:9 .*Nothing was started\."):
        open_store("http://127.0.0.1:9")


def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    slept: list[float] = []
    store = Store(
        MlflowClient("http://127.0.0.1:9"),
        patience_seconds=40,
        say=lambda _: None,
        sleep=slept.append,
        clock=lambda: sum(slept),
    )
    with pytest.raises(TrackingError, match="has not answered for 40 s"):
        store.call(store.client.search_experiments)
    assert sum(slept) == 40
    assert max(slept) <= 15


def test_a_refusal_is_not_tried_again(tracking_uri: str) -> None:
    slept: list[float] = []
    store = Store(MlflowClient(tracking_uri), sleep=slept.append)
    with pytest.raises(TrackingError, match="refused"):
        store.call(store.client.get_run, "0" * 32)
    assert slept == []


def test_a_folder_that_cannot_hold_a_database_is_said() -> None:
    with pytest.raises(TrackingError, match="Nothing was started"):
        open_store("sqlite:////proc/nowhere/mlflow.db")
