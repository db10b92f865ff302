"""Models that earlier versions logged still load, can be fetched, and give the same answers."""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from pathlib import Path

import pytest

from models.inference.evaluation import evaluation_of
from models.inference.predictor import load_predictor
from models.logged.model_folder import model_folder
from models.trained_model import trained_model
from tests.support.earlier import WHOLE, unpack
from tracking.server.store import open_store


@pytest.fixture
def no_stored_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide stored modules of other models, and remove those of this test afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("trainfare_pyfunc", "trainfare_spans"):
        monkeypatch.setitem(sys.modules, name, None)  # so that the original is restored
        del sys.modules[name]


@pytest.fixture(scope="module")
def whole_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Database and state folder of version 0.1.0, with logged models of every task."""
    folder = tmp_path_factory.mktemp("whole")
    unpack(folder, WHOLE)
    return folder


@pytest.mark.usefixtures("no_stored_modules")
@pytest.mark.parametrize("name", ["classes", "pairs", "questions", "texts"])
def test_logged_models_of_every_task_give_the_recorded_answers(
    whole_state: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = json.loads((whole_state / "answers.json").read_text())[name]
    store = open_store(f"sqlite:///{whole_state / 'mlflow.db'}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mlflow = importlib.import_module("mlflow")
        monkeypatch.setenv("MLFLOW_TRACKING_URI", store.uri)
        pyfunc = mlflow.pyfunc.load_model(f"models:/{recorded['model']}")
        by_pyfunc = pyfunc.predict(recorded["inputs"], params=recorded["params"]).to_dict(orient="records")
    model = trained_model(store, recorded["run"])
    folder = model_folder(store, model, whole_state / "other home", lambda _: None)
    evaluation = evaluation_of(store.client.get_run(recorded["run"]).data.params, model.task)
    by_us = load_predictor(folder, evaluation=evaluation).answer(recorded["inputs"], recorded["params"])
    for answers in (by_pyfunc, by_us):
        for answer, expected in zip(answers, recorded["answers"], strict=True):
            assert {key: value for key, value in answer.items() if key != "score"} == {
                key: value for key, value in expected.items() if key != "score"
            }
            assert answer.get("score") == pytest.approx(expected.get("score"), abs=1e-4)
