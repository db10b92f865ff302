"""Lookup of a model by the names of its run, and one-sentence errors for unknown names."""

from __future__ import annotations

import re

import pytest

from models.trained_model import trained_model
from tests.support.models.place import parent, store_of
from tests.support.tracking.tracked import Tracked
from training.contract.errors import InputError


def test_a_job_is_found_by_run_name_group_and_the_groups_run(tracked: Tracked) -> None:
    of_group = parent(tracked, verb="train")
    tags = {
        "platform.job_name": "emotion-1-none",
        "mlflow.parentRunId": of_group,
        "platform.model_id": "m-1",
        "platform.model_uri": "file:///model.tar.gz",
        "platform.versions": "torch 2.13.0",
        "platform.evaluation_key": "rows",
    }
    metrics = {"eval_loss": 0.4, "eval_accuracy": float("nan"), "train_loss": 0.2, "eval_runtime": 3.0}
    params = {"hp.task": "classification", "hp.target_metric": "eval_loss"}
    run_id = tracked.job("none", metrics=metrics, params=params, tags=tags)
    store = store_of(tracked.client)
    for name in (run_id, f"runs:/{run_id}", f"runs:/{run_id}/model", " emotion-1-none ", tracked.group, of_group):
        model = trained_model(store, name)
        assert model.run_id == run_id, name
    assert (model.job_name, model.group, model.experiment_name) == ("emotion-1-none", "demo-1", "emotion")
    assert (model.task, model.status, model.metrics) == ("classification", "FINISHED", {"eval_loss": 0.4})
    assert (model.model_id, model.artifact_uri, model.versions) == ("m-1", "file:///model.tar.gz", "torch 2.13.0")
    assert (model.target_metric, model.evaluation_key, model.data_key) == ("eval_loss", "rows", "abc123")
    assert model.chosen == "The model comes from none, repeat 1: its only job."


def test_a_job_without_a_parent_has_the_mlflow_experiments_name(tracked: Tracked) -> None:
    run_id = tracked.job("none", tags={"mlflow.parentRunId": "f" * 32})
    assert trained_model(store_of(tracked.client), run_id).experiment_name == "reports"


def test_unknown_names_are_refused(tracked: Tracked) -> None:
    store = store_of(tracked.client)
    gone = tracked.job("none")
    tracked.client.delete_run(gone)
    foreign = str(tracked.client.create_run(tracked.experiment_id).info.run_id)
    report = str(tracked.client.create_run(tracked.experiment_id, tags={"platform.kind": "report"}).info.run_id)
    for name, message in {
        "nothing": "run is 'nothing', which is not a run, job or group on the tracking server sqlite:",
        "f" * 32: f"the tracking server has no run '{'f' * 32}'.",
        gone: f"run '{gone}' is deleted; restore it with `mlflow runs restore --run-id {gone}`.",
        foreign: f"run is '{foreign}', which is not the run of a job or of a group.",
        report: f"run is '{report}', which is not the run of a job or of a group: it is the run of a report.",
        "a'b\"c": "the name 'a\\'b\"c' contains both kinds of quotes",
        "models:/nothing@champion": "run is 'models:/nothing@champion', which does not exist in the registry of",
        "models:/nothing/7": "run is 'models:/nothing/7', which does not exist in the registry of sqlite:",
        "models:/nothing": "write a registered model as models:/NAME@ALIAS or models:/NAME/3.",
    }.items():
        with pytest.raises(InputError, match=re.escape(message)):
            trained_model(store, name)


def test_a_job_name_that_several_runs_have_is_refused(tracked: Tracked) -> None:
    """This happens if a group was imported twice from another server."""
    runs = [tracked.job("none", tags={"platform.job_name": "twice"}) for _ in range(2)]
    with pytest.raises(InputError, match=rf"run is 'twice', a job name that 2 runs have \({runs[0]}, {runs[1]}\)"):
        trained_model(store_of(tracked.client), "twice")
