"""`predict` with the model of a run: it uses the settings of the evaluation and is linked to the run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.deployments.predict_file import predict_file
from models.batch.prediction_run import begin, end
from models.lookup.trained_model import trained_model
from tests.support.models.group_models import store_of
from tests.support.models.tiny import modelled
from tests.support.tracking.tracked import Tracked


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


def test_a_resumed_prediction_uses_the_killed_ones_run(
    tmp_path: Path, tracked: Tracked, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(tracked.client)
    trained = trained_model(store, tracked.job("none", tags={"platform.job_name": "weather-1"}))
    recorded = {"file": "/data/a.jsonl", "precision": "fp32"}
    first = begin(store, trained, recorded, None)
    end(store, first, "KILLED", {}, "Not finished.")
    assert begin(store, trained, recorded, first) == first
    assert tracked.client.get_run(first).info.status == "RUNNING"
    assert begin(store, trained, recorded, "f" * 32) != first
    # `mlflow run` opened one: it is told there, and the earlier one says so.
    opened = tracked.client.create_run(tracked.experiment_id).info.run_id
    monkeypatch.setenv("MLFLOW_RUN_ID", opened)
    assert begin(store, trained, recorded, first) == opened
    earlier = tracked.client.get_run(first)
    assert earlier.info.status == "KILLED"
    assert opened in earlier.data.tags["mlflow.note.content"]
