"""A logged model that MLflow loads where trainfare is not installed, and every form of its input."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from models.inference.evaluation import Evaluation
from models.logged import flavor
from models.logged.flavor import served_task
from models.logged.pyfunc import rows_of
from tests.support.models.made_models import LABELS, PLANS

pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow warns about types of its own
ModelOf = Callable[[str], Path]
QUESTION = "Where did the light hang?"
CONTEXT = "The harbour was quiet. " * 6 + "A lantern hung at the gate. " + "Thunder rolled. " * 5


def written(folder: Path, kind: str, model_of: ModelOf) -> Path:
    """Return the folder of an MLflow model of a kind."""
    shutil.copytree(model_of(kind), folder / "model")
    evaluation = Evaluation(precision="bf16", batch_size=2)
    flavor.write(folder, served_task(folder / "model"), PLANS[kind], {}, evaluation, run_id="r")
    return folder


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Returns MLflow's function. What it adds to the path and the modules is removed afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    known = set(sys.modules)
    yield import_module("mlflow.pyfunc").load_model
    for name in [name for name in sys.modules if name.startswith("trainfare_") and name not in known]:
        del sys.modules[name]


def test_questions_are_answered_with_the_options_of_the_training(
    tmp_path: Path, model_of: ModelOf, load: Callable[..., Any]
) -> None:
    """Windows have 48 of the model's 64 tokens, and answers at most 8."""
    model = load(str(written(tmp_path / "m", "question-answering", model_of)))
    options = model._model_impl._predictor.loaded.options
    answering = PLANS["question-answering"].answering
    assert {name: options[name] for name in answering} == dict(answering)
    [answer] = model.predict({"question": QUESTION, "context": CONTEXT}).to_dict(orient="records")
    assert CONTEXT[answer["start"] : answer["end"]].strip() == answer["answer"] != ""


def test_models_load_beside_a_users_packages_of_the_same_names(tmp_path: Path, model_of: ModelOf) -> None:
    """Also two models with different code in one process, without trainfare on the path."""
    folders = [written(tmp_path / name, "classification", model_of) for name in ("one", "two")]
    mlmodel, [package] = folders[1] / "MLmodel", (folders[1] / "code").iterdir()
    for path in [mlmodel, *package.rglob("*.py")]:
        path.write_text(path.read_text().replace(package.name, "trainfare_other"))
    package.rename(package.with_name("trainfare_other"))
    for name in ("models", "training"):
        (tmp_path / "user" / name).mkdir(parents=True)
        (tmp_path / "user" / name / "__init__.py").write_text("ours = True\n")
    code = (
        "import json, sys, models, training, mlflow.pyfunc\n"
        "loaded = [mlflow.pyfunc.load_model(path) for path in sys.argv[1:]]\n"
        "answers = [each.predict(['a', 'b']).to_dict('records') for each in loaded]\n"
        "assert models.ours and training.ours and 'trainfare_other' in sys.modules\n"
        "print(json.dumps(answers))"
    )
    command = [sys.executable, "-c", code, *map(str, folders)]
    done = subprocess.run(command, cwd=tmp_path / "user", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    one, two = json.loads(done.stdout.splitlines()[-1])
    assert one == two
    assert {each["label"] for each in one} <= set(LABELS)


PAIRS = [{"text": "a", "text_pair": "c"}, {"text": "b", "text_pair": "d"}]


@pytest.mark.parametrize(
    ("inputs", "rows"),
    [
        ("a", ["a"]),
        (np.array("a"), ["a"]),
        (["a", "b"], ["a", "b"]),
        (np.array(["a", "b"]), ["a", "b"]),
        (np.array([["a"], ["b"]]), ["a", "b"]),
        (np.array([["a", "b"]]), [["a", "b"]]),
        ([{"text": "a"}, {"text": "b"}], ["a", "b"]),
        ({"text": ["a", "b"]}, ["a", "b"]),
        (pd.DataFrame({"anything": ["a", "b"]}), ["a", "b"]),
        (pd.DataFrame(PAIRS), PAIRS),
        ({"text": ["a", "b"], "text_pair": np.array(["c", "d"])}, PAIRS),
        ({"text": np.array("a"), "text_pair": np.array("c")}, PAIRS[:1]),
    ],
)
def test_every_form_of_input_becomes_rows(inputs: object, rows: list[Any]) -> None:
    assert rows_of(inputs) == rows
