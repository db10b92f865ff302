"""`mlflow models serve` in a real process, with requests over HTTP for every kind of model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.models.made_models import LABELS
from tests.support.models.place import Place
from tests.support.models.served import served

pytestmark = pytest.mark.slow
SENTENCE = "Winter is coming and it will be dark soon."


def logged(place: Place, archive_of: Callable[[str], Path], kind: str) -> tuple[str, str]:
    """Log a model of a kind, and return its address by run and by model id."""
    run = place.run(archive_of(kind))
    place.log(run, kind=kind)
    model_id = place.again(run).data.tags["platform.model_id"]
    return f"runs:/{run.info.run_id}/model", f"models:/{model_id}"


def test_a_text_is_classified(place: Place, archive_of: Callable[[str], Path]) -> None:
    by_run, _ = logged(place, archive_of, "classification")
    with served(place, by_run) as ask:
        status, [single] = ask({"inputs": SENTENCE})
        assert status == 200
        assert single["label"] in LABELS
        assert 0.5 <= single["score"] <= 1
        _, several = ask({"inputs": [SENTENCE, "[1]", "word " * 1000, SENTENCE]})
        assert several[0] == several[3] == pytest.approx(single, abs=1e-5)
        assert len(several) == 4
        for body in (
            {"dataframe_split": {"columns": ["text"], "data": [[SENTENCE], ["b"]]}},
            {"dataframe_records": [{"text": SENTENCE}, {"text": "b"}]},
        ):
            _, answers = ask(body)
            assert (len(answers), answers[0]) == (2, pytest.approx(single, abs=1e-5))
        for wrong in (b"", b"\xff\xfe", b"{", {"inputs": []}, {"inputs": None}, {"inputs": {"text": ["a"]}}, {}):
            assert ask(wrong)[0] == 400, wrong
        for typed in (
            1,
            1.5,
            True,
            [1],
            [SENTENCE, 2],
            [None],
            [{"text": 1}],
            {"text": 1},
            [[1], [2]],
        ):
            assert ask({"inputs": typed})[0] == 400, typed
        for value in (1, None, True, [SENTENCE]):
            assert ask({"dataframe_records": [{"text": value}]})[0] == 400, value
        assert ask({"inputs": SENTENCE}) == (200, [single])


def test_a_pair_of_texts_is_classified(place: Place, archive_of: Callable[[str], Path]) -> None:
    _, by_model = logged(place, archive_of, "pairs")
    pair = {"text": SENTENCE, "text_pair": "The days are getting shorter."}
    with served(place, by_model) as ask:
        status, [single] = ask({"inputs": pair})
        assert status == 200
        assert single["label"] in LABELS
        assert ask({"inputs": [pair, pair]})[1] == [pytest.approx(single, abs=1e-5)] * 2
        split = {"columns": list(pair), "data": [list(pair.values())]}
        assert ask({"dataframe_split": split}) == (200, [single])
        assert ask({"inputs": {"text": "without its pair"}})[0] == 400


def test_a_question_is_answered(place: Place, archive_of: Callable[[str], Path]) -> None:
    by_run, _ = logged(place, archive_of, "question-answering")
    question = {"question": "What is coming?", "context": SENTENCE * 10}
    with served(place, by_run) as ask:
        status, [single] = ask({"inputs": question})
        assert status == 200
        assert question["context"][single["start"] : single["end"]].strip() == single["answer"] != ""
        assert ask({"inputs": [question, question]})[1] == [pytest.approx(single)] * 2
        split = {"columns": ["context", "question"], "data": [[question["context"], question["question"]]]}
        assert ask({"dataframe_split": split}) == (200, [single])
        assert ask({"inputs": {"question": "Where?"}})[0] == 400


def test_a_text_is_continued(place: Place, archive_of: Callable[[str], Path]) -> None:
    _, by_model = logged(place, archive_of, "causal-lm")
    with served(place, by_model) as ask:
        status, [single] = ask({"inputs": SENTENCE})
        assert status == 200
        assert single["generated_text"].startswith(SENTENCE)
        _, [shorter] = ask({"inputs": SENTENCE, "params": {"max_new_tokens": 2}})
        assert len(shorter["generated_text"]) < len(single["generated_text"])
        assert ask({"inputs": [SENTENCE, "b"]})[1][0] == single
        split = {"columns": ["text"], "data": [[SENTENCE]]}
        assert ask({"dataframe_split": split}) == (200, [single])
