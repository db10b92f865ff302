"""Requests are logged as traces in the experiment of the model's run."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from mlflow import MlflowClient

from models.endpoints.protocol import EndpointState
from models.traces import trace
from tests.support.tracking.tracked import Tracked
from tracking.server.store import Store
from training.contract.errors import TrackingError

QUESTION = {"inputs": "Winter is coming", "parameters": {"top_k": 1}}
ANSWER = [{"label": "dark", "score": 0.75}]


def traced(store: Store, run_id: str, model_id: str | None = "m-0123") -> str:
    """Record a request to an endpoint that took 40 ms."""
    now = time.time_ns()
    state = EndpointState(
        name="winter",
        service="local",
        status="InService",
        identity=run_id,
        run_id=run_id,
        model_id=model_id,
        address="http://127.0.0.1:1/invocations",
        machine="local",
        created=datetime.now(UTC),
    )
    return trace(store, state, QUESTION, ANSWER, now - 40_000_000, now)


@pytest.fixture
def store(tracked_by_server: Tracked, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The store that the command line opens, from the environment."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", str(tracked_by_server.client.tracking_uri))
    return Store(MlflowClient(), retry_seconds=5)


def test_a_trace_records_question_answer_latency_and_model(tracked_by_server: Tracked, store: Store) -> None:
    run_id = tracked_by_server.job("none")
    trace_id = traced(store, run_id)
    (recorded,) = store.client.search_traces([tracked_by_server.experiment_id])
    assert recorded.info.trace_id == trace_id
    assert recorded.info.execution_duration == 40
    assert recorded.info.trace_metadata["mlflow.sourceRun"] == run_id
    assert recorded.info.trace_metadata["mlflow.modelId"] == "m-0123"
    assert recorded.info.tags["platform.endpoint"] == "winter"
    (span,) = recorded.data.spans
    assert span.inputs == QUESTION
    assert span.outputs == ANSWER
    with pytest.raises(TrackingError, match="f" * 32):
        traced(store, "f" * 32)
