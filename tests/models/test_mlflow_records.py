"""Requests are logged as traces, and predictions of files as runs, in the experiment of the model's run."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from mlflow import MlflowClient

from experiments.deployments.endpoints import predict_file
from models.endpoints.protocol import EndpointState
from models.mlflow_records import trace
from tests.support.models.made_models import modelled
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


def test_a_runs_model_predicts_with_its_evaluation_settings(
    tmp_path: Path, tracked: Tracked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", str(tracked.client.tracking_uri))
    monkeypatch.setenv("TRAINFARE_HOME", str(tmp_path / "home"))
    params = {"hp.task": "classification", "hp.precision": "fp32", "hp.max_length": 8}
    model_run = modelled(tracked, tmp_path, "weather-1", params=params)
    (tmp_path / "a.jsonl").write_text('{"text": "winter is coming"}\n{"text": "it will be dark"}\n')
    assert predict_file({"run": "weather-1", "file": str(tmp_path / "a.jsonl")}) == 0
    lines = (tmp_path / "a.answers.jsonl").read_text().splitlines()
    assert [json.loads(line)["row"] for line in lines] == [1, 2]
    where = "tags.`platform.kind` = 'prediction'"
    (run,) = tracked.client.search_runs([tracked.experiment_id], where)
    tags, recorded = run.data.tags, run.data.params
    assert (tags["platform.model_run"], tags["platform.job_name"]) == (model_run, "weather-1")
    assert (recorded["prediction.precision"], recorded["prediction.max_length"]) == ("fp32", "8")
    model_id = tracked.client.get_run(model_run).data.tags["platform.model_id"]
    assert tags["platform.model_id"] == model_id
    assert [each.model_id for each in tracked.client.get_run(run.info.run_id).inputs.model_inputs] == [model_id]
