"""MLflow's own commands on a logged model, as a user types them in an empty folder without trainfare on the path."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import mlflow
import pandas as pd
import pytest

from tests.support.models.made_models import LABELS
from tests.support.models.place import Place
from tests.support.models.served import served

SENTENCE = "Winter is coming and it will be dark soon."


@pytest.fixture
def address(place: Place, archive_of: Callable[[str], Path]) -> str:
    """The address of a logged classifier by its run."""
    run = place.run(archive_of("classification"))
    place.log(run)
    return f"runs:/{run.info.run_id}/model"


@pytest.mark.slow
def test_texts_are_classified_over_http(place: Place, address: str) -> None:
    with served(place, address) as ask:
        status, [single] = ask({"inputs": SENTENCE})
        assert status == 200
        assert single["label"] in LABELS
        _, several = ask({"inputs": [SENTENCE, "[1]", "word " * 1000, SENTENCE]})
        assert several[0] == several[3] == pytest.approx(single, abs=1e-5)
        assert len(several) == 4
        split = {"columns": ["text"], "data": [[SENTENCE], ["b"]]}
        records = [{"text": SENTENCE}, {"text": "b"}]
        for body in ({"dataframe_split": split}, {"dataframe_records": records}):
            _, answers = ask(body)
            assert (len(answers), answers[0]) == (2, pytest.approx(single, abs=1e-5))
        for wrong in (b"", b"{", {"inputs": []}, {"inputs": None}, {}):
            assert ask(wrong)[0] == 400, wrong
        for typed in (1, True, [SENTENCE, 2], [None], [{"text": 1}], [[1], [2]]):
            assert ask({"inputs": typed})[0] == 400, typed
        assert ask({"inputs": SENTENCE}) == (200, [single])


@pytest.mark.slow
def test_a_question_is_answered_and_a_text_continued(place: Place, archive_of: Callable[[str], Path]) -> None:
    question = {"question": "What is coming?", "context": SENTENCE * 10}
    split = {"columns": ["context", "question"], "data": [[question["context"], question["question"]]]}
    bodies = {
        "question-answering": [{"inputs": question}, {"inputs": [question]}, {"dataframe_split": split}],
        "causal-lm": [{"inputs": SENTENCE}, {"inputs": [SENTENCE]}, {"inputs": SENTENCE, "params": {}}],
    }
    for kind, requests in bodies.items():
        run = place.run(archive_of(kind), kind)
        place.log(run, kind=kind)
        model_id = place.again(run).data.tags["platform.model_id"]
        with served(place, f"models:/{model_id}") as ask:
            statuses, answers = zip(*map(ask, requests), strict=True)
            assert statuses == (200, 200, 200)
            assert answers[0] == answers[1] == answers[2]
            if kind == "question-answering":
                assert ask({"inputs": {"question": "Where?"}})[0] == 400
            else:
                _, [shorter] = ask({"inputs": SENTENCE, "params": {"max_new_tokens": 2}})
                assert shorter["generated_text"].startswith(SENTENCE)
                assert len(shorter["generated_text"]) < len(answers[0][0]["generated_text"])


@pytest.mark.filterwarnings("ignore:.*type hint is inferred as AnyType")  # of a class of MLflow, as it is imported
def test_the_model_is_loaded_in_python(place: Place, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", str(place.client.tracking_uri))
    model = mlflow.pyfunc.load_model(address)
    answers = model.predict(pd.DataFrame({"text": [SENTENCE, "b"]}))
    assert set(answers["label"]) <= set(LABELS)
    assert mlflow.pyfunc.get_model_dependencies(address, format="conda").endswith("conda.yaml")
