"""MLflow client with retries, against a real tracking server that stops answering."""

from __future__ import annotations

import signal
import threading

import pytest
from mlflow import MlflowClient
from mlflow.entities import Metric, Param

from tests.conftest import TrackingServer
from tests.support.services.following import until
from tests.support.tracking.forwarding import Forwarding
from tracking.groups.group import close_group, open_group
from tracking.server.store import Store, open_store


def points(first: int, last: int) -> list[Metric]:
    return [Metric("loss", 1 / step, 1_000 * step, step) for step in range(first, last + 1)]


def test_points_logged_twice_are_stored_once(tracking_uri: str) -> None:
    store = open_store(tracking_uri)
    run_id = store.call(store.client.create_run, store.call(store.client.create_experiment, "e")).info.run_id
    store.call(store.client.log_batch, run_id, metrics=points(1, 500))
    store.call(store.client.log_batch, run_id, metrics=points(1, 501))
    history = store.client.get_metric_history(run_id, "loss")
    assert [(m.step, m.value) for m in history] == [(m.step, m.value) for m in points(1, 501)]


def test_any_text_can_be_stored(tracking_uri: str) -> None:
    store = open_store(tracking_uri)
    experiment_id = store.create(store.client.create_experiment, "e\0", existing=lambda: None)
    run = store.call(store.client.create_run, experiment_id, tags={"a@b": "\0\ud83d\N{FIRE}"})
    store.tag(run.info.run_id, {"..": "\x1b[31mred", "long": 9000 * "é"})
    params = [Param("hp.lr@end", "\0"), Param("hp.lr#end", 7000 * "x")]
    store.call(store.client.log_batch, run.info.run_id, metrics=[Metric("a//b", 1.0, 1, 1)], params=params)
    data = store.client.get_run(run.info.run_id).data
    tags = {name: value for name, value in data.tags.items() if not name.startswith("mlflow.")}
    assert tags == {"a_40_b": "\\u0000\\ud83d\N{FIRE}", "_2e__2e_": "red", "long": 8000 * "é"}
    assert data.params == {"hp.lr_40_end": "\\u0000", "hp.lr_23_end": 6000 * "x"}
    assert data.metrics == {"a_2f__2f_b": 1.0}
    assert store.client.get_experiment(experiment_id).name == "e\\u0000"
    assert store.call(store.client.get_experiment_by_name, "e\0").experiment_id == experiment_id


@pytest.mark.gate
@pytest.mark.slow
def test_a_halted_server_causes_delay_but_no_loss(
    tracking_server: TrackingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    messages: list[str] = []
    store = Store(MlflowClient(tracking_server.uri), echo=messages.append)
    client = MlflowClient(tracking_server.database_uri)
    run_id = client.create_run(client.create_experiment("e")).info.run_id
    store.call(store.client.log_batch, run_id, metrics=points(1, 10))
    tracking_server.send(signal.SIGSTOP)

    def wake() -> None:
        until(lambda: any("not answered" in line for line in messages))
        tracking_server.send(signal.SIGCONT)

    waking = threading.Thread(target=wake)
    waking.start()
    for step in range(11, 21):
        store.call(store.client.log_batch, run_id, metrics=points(step, step))
    waking.join()
    history = MlflowClient(tracking_server.database_uri).get_metric_history(run_id, "loss")
    assert [m.step for m in history] == list(range(1, 21))
    assert any("not answered" in line for line in messages)


class Lossy(Forwarding):
    """Network that passes every request to a server and loses the first answer of each kind."""

    def __init__(self, server_uri: str) -> None:
        super().__init__(server_uri)
        self.lost: set[str] = set()

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        answer, kind = super().answer(method, path, body), path.partition("?")[0]
        if kind not in self.lost:
            self.lost.add(kind)
            raise ConnectionResetError
        return answer


def test_nothing_is_created_twice_when_an_answer_is_lost(tracking_server: TrackingServer) -> None:
    with Lossy(tracking_server.uri) as lossy:
        store = Store(MlflowClient(lossy.url), echo=lambda _: None)
        group = open_group(store, experiment_name="lost", verb="train", key="k")
        close_group(store, group, "FINISHED")
    client = MlflowClient(tracking_server.database_uri)
    experiment = client.get_experiment_by_name("lost")
    assert experiment is not None
    assert [run.info.run_id for run in client.search_runs([experiment.experiment_id])] == [group.run_id]
    assert {path.rpartition("mlflow/")[2] for path in lossy.lost} >= {"experiments/create", "runs/create"}
