"""A question and its answer as a trace: in the experiment of the model's run, on a real server."""

from __future__ import annotations

import time
from typing import Any

import pytest
from mlflow import MlflowClient

from models.endpoints.traces import Prediction, trace
from tests.support.tracking.tracked import Tracked
from tracking.server.store import Store
from training.contract.errors import TrackingError

ANSWER = [{"label": "dark", "score": 0.75}]


def asked(run_id: str, model_id: str | None = "m-0123") -> Prediction:
    now = time.time_ns()
    return Prediction(
        endpoint="winter",
        service="local",
        run_id=run_id,
        model_id=model_id,
        request={"inputs": "Winter is coming", "parameters": {"top_k": 1}},
        answer=ANSWER,
        started_ns=now - 40_000_000,
        ended_ns=now,
    )


@pytest.fixture
def store(tracked_by_server: Tracked, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The store as the command line has it: by the environment."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", str(tracked_by_server.client.tracking_uri))
    return Store(MlflowClient(), retry_seconds=5)


def test_a_trace_tells_question_answer_latency_and_model(tracked_by_server: Tracked, store: Store) -> None:
    run_id = tracked_by_server.job("none")
    trace_id = trace(store, asked(run_id))
    (found,) = store.client.search_traces([tracked_by_server.experiment_id])
    assert found.info.trace_id == trace_id
    assert found.info.execution_duration == 40
    assert found.info.trace_metadata["mlflow.sourceRun"] == run_id
    assert found.info.trace_metadata["mlflow.modelId"] == "m-0123"
    assert found.info.tags["platform.endpoint"] == "winter"
    (span,) = found.data.spans
    assert span.inputs == {"inputs": "Winter is coming", "parameters": {"top_k": 1}}
    assert span.outputs == ANSWER


def test_a_model_that_is_not_in_mlflow_is_traced_too(tracked_by_server: Tracked, store: Store) -> None:
    trace(store, asked(tracked_by_server.job("none"), model_id=None))
    (found,) = store.client.search_traces([tracked_by_server.experiment_id])
    assert "mlflow.modelId" not in found.info.trace_metadata


def test_an_unknown_run_is_refused(store: Store) -> None:
    with pytest.raises(TrackingError, match="f" * 32):
        trace(store, asked("f" * 32))


@pytest.mark.slow
def test_a_server_that_stops_is_reported(tracking_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_server.uri)
    client = MlflowClient()
    run_id = client.create_run(client.create_experiment("gone")).info.run_id
    tracking_server.stop()
    with pytest.raises(TrackingError, match="has not answered"):
        trace(Store(client, retry_seconds=1, echo=lambda _: None), asked(run_id))
