"""Models that earlier versions logged still load, can be fetched, and give the same answers."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from models.inference.evaluation import evaluation_of
from models.inference.predictor import load_predictor
from models.logged import flavor
from models.logged.flavor import read_checkpoint
from models.logged.model_folder import model_folder
from models.trained_model import trained_model
from tests.support.earlier import WHOLE, unpack, unpack_model_code
from tests.support.models.made_models import PLANS
from tests.support.models.place import store_of
from tests.support.tracking.tracked import Tracked
from tracking.server.store import open_store

QUESTION = {"question": "Where did the lantern hang?", "context": "A lantern hung at the gate."}


@pytest.fixture
def earlier_model(tmp_path: Path, model_of: Callable[[str], Path]) -> Path:
    """Folder of an MLflow model for question answering, with the code of an earlier version."""
    folder = tmp_path / "model"
    shutil.copytree(model_of("question-answering"), folder / "model")
    flavor.write(folder, read_checkpoint(folder / "model"), PLANS["question-answering"], {}, run_id="r")
    unpack_model_code(folder)
    model = flavor.Model.load(str(folder))
    model.flavors["python_function"]["loader_module"] = "trainfare_pyfunc"
    model.save(str(folder / "MLmodel"))
    assert {path.name for path in (folder / "code").iterdir()} == {"trainfare_pyfunc.py", "trainfare_spans.py"}
    return folder


@pytest.fixture
def no_stored_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide stored modules of other models, and remove those of this test afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("trainfare_pyfunc", "trainfare_spans"):
        monkeypatch.setitem(sys.modules, name, None)  # so that the original is restored
        del sys.modules[name]


def assert_same(answer: dict[str, Any], expected: dict[str, Any]) -> None:
    assert (answer["answer"], answer["start"], answer["end"]) == tuple(expected[n] for n in ("answer", "start", "end"))
    assert answer["score"] == pytest.approx(expected["score"], rel=1e-4)


@pytest.mark.usefixtures("no_stored_modules")
def test_an_earlier_model_answers_with_its_own_code_and_can_be_fetched(earlier_model: Path, tracked: Tracked) -> None:
    run_id = tracked.job("none", params={"hp.task": "question-answering"})
    tracked.client.log_artifacts(run_id, str(earlier_model), "model")
    tracked.client.set_tag(run_id, "platform.model_artifact", f"runs:/{run_id}/model")
    store = store_of(tracked.client)
    folder = model_folder(store, trained_model(store, run_id), earlier_model.parent / "home", lambda _: None)
    assert (folder / "answer_options.json").is_file()
    predictor = load_predictor(folder, precision="fp32")
    assert predictor.loaded.answer_options.max_answer_length == 8
    (expected,) = predictor.answer(QUESTION)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pyfunc = importlib.import_module("mlflow.pyfunc").load_model(str(earlier_model))
    (answer,) = pyfunc.predict(QUESTION).to_dict(orient="records")
    assert str(sys.modules["trainfare_spans"].__file__).startswith(str(earlier_model))
    assert_same(answer, expected)


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
