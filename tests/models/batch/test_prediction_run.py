"""`predict` with the model of a run: it uses the settings of the evaluation and is linked to the run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.deployments.predict import predict_file
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
