"""A stored model, loaded by MLflow, compared with Transformers and with values worked out by hand."""

from __future__ import annotations

import importlib
import math
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from models.logged import flavor
from models.logged.checkpoint import read_checkpoint
from models.logged.stored.trainfare_pyfunc import rows_of
from tests.support.models.made_models import LABELS, PLANS

ModelOf = Callable[[str], Path]
TEXTS = ["Winter is coming and it will be dark soon.", "1", "[1, 2]", "", "'quoted'", "word " * 500]
CONTEXT = (
    "The harbour was quiet. " * 6 + "A lantern hung at the orchard gate. " + "Thunder rolled over the meadow. " * 5
)


def written(folder: Path, kind: str, model_of: ModelOf) -> Path:
    """Return the folder of an MLflow model of a kind."""
    shutil.copytree(model_of(kind), folder / "model")
    flavor.write(folder, read_checkpoint(folder / "model"), PLANS[kind], {}, run_id="r")
    return folder


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory, model_of: ModelOf) -> Iterator[Callable[..., Any]]:
    """Returns the pyfunc of a kind, loaded with the given config. Its modules and paths are removed afterwards."""
    path, known = list(sys.path), set(sys.modules)
    made: dict[tuple[str, str], Any] = {}

    def load(kind: str, **config: int) -> Any:
        key = kind, str(config)
        if key not in made:
            folder = written(tmp_path_factory.mktemp("mlflow model"), kind, model_of)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                pyfunc = importlib.import_module("mlflow.pyfunc")
                made[key] = pyfunc.load_model(str(folder), model_config=config)
        return made[key]

    yield load
    sys.path[:] = path
    for name in {"trainfare_pyfunc"} - known:
        sys.modules.pop(name, None)


def records(answers: pd.DataFrame) -> list[dict[str, Any]]:
    return answers.to_dict(orient="records")


def test_labels_equal_those_of_transformers(loaded: Callable[[str], Any], model_of: ModelOf) -> None:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(model_of("classification")).eval()
    tokenizer = AutoTokenizer.from_pretrained(model_of("classification"))
    answers = records(loaded("classification").predict(TEXTS))
    for text, answer in zip(TEXTS, answers, strict=True):
        with torch.inference_mode():
            logits = model(**tokenizer(text, truncation=True, max_length=64, return_tensors="pt")).logits[0]
        share = logits.softmax(-1)
        assert answer["label"] == LABELS[int(share.argmax())]
        assert answer["score"] == pytest.approx(float(share.max()), abs=1e-5)


def test_a_pair_is_classified_as_a_pair(loaded: Callable[[str], Any], model_of: ModelOf) -> None:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    pair = {"text": TEXTS[0], "text_pair": "The days are getting shorter."}
    [answer] = records(loaded("pairs").predict(pair))
    model = AutoModelForSequenceClassification.from_pretrained(model_of("pairs")).eval()
    tokenizer = AutoTokenizer.from_pretrained(model_of("pairs"))
    with torch.inference_mode():
        logits = model(**tokenizer(pair["text"], pair["text_pair"], return_tensors="pt")).logits[0]
    assert answer["score"] == pytest.approx(float(logits.softmax(-1).max()), abs=1e-5)
    assert records(loaded("pairs").predict([pair, pair])) == [pytest.approx(answer)] * 2


def best_by_hand(model_folder: Path, question: str, context: str, shared: int = 16) -> tuple[str, float]:
    """Return the best answer of at most 8 tokens over windows of 48 tokens, each span tried in turn."""
    import torch
    from transformers import AutoModelForQuestionAnswering, AutoTokenizer

    model = AutoModelForQuestionAnswering.from_pretrained(model_folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    question_ids = tokenizer(question, add_special_tokens=False)["input_ids"]
    whole = tokenizer(context, add_special_tokens=False, return_offsets_mapping=True)
    ids, offsets = whole["input_ids"], whole["offset_mapping"]
    size = 48 - 3 - len(question_ids)
    spans: list[tuple[float, str]] = []
    total = np.zeros(2)
    for at in range(0, len(ids), size - shared):
        part = ids[at : at + size]
        tokens = [tokenizer.cls_token_id, *question_ids, tokenizer.sep_token_id, *part, tokenizer.sep_token_id]
        types = [0] * (len(question_ids) + 2) + [1] * (len(part) + 1)
        with torch.inference_mode():
            output = model(input_ids=torch.tensor([tokens]), token_type_ids=torch.tensor([types]))
        inside = slice(len(question_ids) + 2, len(question_ids) + 2 + len(part))
        starts, ends = output.start_logits[0, inside].double(), output.end_logits[0, inside].double()
        total += [float(starts.exp().sum()), float(ends.exp().sum())]
        likely = [set(each.argsort(descending=True)[:20].tolist()) for each in (starts, ends)]
        for first in likely[0]:
            for last in likely[1]:
                if first <= last < first + 8:
                    text = context[offsets[at + first][0] : offsets[at + last][1]].strip()
                    spans.append((float(starts[first] + ends[last]), text))
        if at + size >= len(ids):
            break
    best, text = max(spans)
    return text, math.exp(best) / float(total.prod())


@pytest.mark.parametrize("context", [CONTEXT, "A lantern hung at the gate.", "Schnee – überall! 雪 ❄ lantern."])
def test_an_answer_is_the_best_span_of_all_windows(
    loaded: Callable[[str], Any], model_of: ModelOf, context: str
) -> None:
    question = "Where did the lantern hang?"
    [answer] = records(loaded("question-answering").predict({"question": question, "context": context}))
    text, chance = best_by_hand(model_of("question-answering"), question, context)
    assert answer["answer"] == text
    assert answer["score"] == pytest.approx(chance, rel=1e-4)
    assert context[answer["start"] : answer["end"]].strip() == text


@pytest.mark.parametrize(("words", "shared"), [(4, 32), (4, 36), (23, 16), (22, 22), (23, 20)])
def test_windows_overlap_as_in_training(loaded: Callable[..., Any], model_of: ModelOf, words: int, shared: int) -> None:
    question = "where " * words
    [answer] = records(
        loaded("question-answering", doc_stride=shared).predict({"question": question, "context": CONTEXT})
    )
    text, chance = best_by_hand(model_of("question-answering"), question, CONTEXT, shared)
    assert answer["answer"] == text
    assert answer["score"] == pytest.approx(chance, rel=1e-4)


@pytest.mark.parametrize(("words", "shared"), [(22, 24), (23, 24), (300, 24), (300, 47), (30, 0)])
def test_a_question_too_long_for_the_stride_is_answered(loaded: Callable[..., Any], words: int, shared: int) -> None:
    [answer] = records(
        loaded("question-answering", doc_stride=shared).predict({"question": "where " * words, "context": CONTEXT})
    )
    assert answer["answer"]
    assert CONTEXT[answer["start"] : answer["end"]].strip() == answer["answer"]


def test_a_context_without_words_has_no_answer(loaded: Callable[[str], Any]) -> None:
    questions = [{"question": "Where?", "context": " "}, {"question": "why " * 300, "context": "A lantern."}]
    answers = records(loaded("question-answering").predict(questions))
    assert answers[0] == {"answer": "", "score": 0.0, "start": 0, "end": 0}
    assert answers[1]["answer"] in "A lantern."


def test_a_text_is_continued(loaded: Callable[[str], Any]) -> None:
    prompts = ["winter is coming", "the harbour " * 60]
    answers = records(loaded("causal-lm").predict(prompts, params={"max_new_tokens": 5}))
    assert [list(each) for each in answers] == [["generated_text"]] * 2
    assert answers[0]["generated_text"].startswith("winter is coming")
    assert records(loaded("causal-lm").predict(prompts, params={"max_new_tokens": 5})) == answers
    more = records(loaded("causal-lm").predict(prompts[:1]))[0]["generated_text"]
    assert len(more) > len(answers[0]["generated_text"])


def test_the_transformers_flavor_of_mlflow_loads_the_model(
    loaded: Callable[[str], Any], model_of: ModelOf, tmp_path: Path
) -> None:
    """It returns a pipeline, or the components if Transformers no longer has that pipeline."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        flavour = importlib.import_module("mlflow.transformers")
        pipeline = flavour.load_model(str(written(tmp_path / "a", "classification", model_of)), device="cpu")
        parts = flavour.load_model(
            str(written(tmp_path / "b", "question-answering", model_of)), return_type="components", device="cpu"
        )
    ours = records(loaded("classification").predict(TEXTS[0]))[0]
    [theirs] = pipeline(TEXTS[0])
    assert theirs["label"] == ours["label"]
    assert math.isclose(theirs["score"], ours["score"], rel_tol=1e-5)
    assert type(parts["model"]).__name__ == "BertForQuestionAnswering"


class TestRows:
    """Every valid input becomes rows, and every other one is refused in one sentence."""

    ONE, PAIR, QUESTION = ("text",), ("text", "text_pair"), ("question", "context")

    @pytest.mark.parametrize(
        "inputs",
        [
            ["a", "b"],
            ("a", "b"),
            np.array(["a", "b"]),
            [{"text": "a"}, {"text": "b"}],
            {"text": ["a", "b"]},
            pd.DataFrame({"text": ["a", "b"]}),
            pd.DataFrame({"anything": ["a", "b"]}),
            pd.DataFrame(["a", "b"]),
        ],
    )
    def test_texts_become_rows(self, inputs: object) -> None:
        assert rows_of(inputs, self.ONE) == [{"text": "a"}, {"text": "b"}]

    def test_a_single_text_becomes_one_row(self) -> None:
        assert rows_of("a", self.ONE) == rows_of(np.array("a"), self.ONE) == [{"text": "a"}]
        assert rows_of({"text": np.array("a"), "text_pair": np.array("b")}, self.PAIR) == [
            {"text": "a", "text_pair": "b"}
        ]

    def test_a_pair_may_lack_its_second_text(self) -> None:
        assert rows_of(pd.DataFrame({"text": ["a"], "text_pair": [None]}), self.PAIR) == [{"text": "a"}]

    @pytest.mark.parametrize(
        ("inputs", "columns", "words"),
        [
            (5, ONE, "a row must be a text or have columns text, not int"),
            ([None], ONE, "not NoneType"),
            ([["a"]], ONE, "not list"),
            ([{"text": 5}], ONE, "text must be texts"),
            ({"text": "a", "more": "b"}, ONE, "a row has columns text, more: it must have text"),
            ({"question": "a"}, QUESTION, "a row has columns question: it must have question, context"),
            ("a", QUESTION, "it must have question, context"),
            ({"text": ["a", "b"], "text_pair": ["c"]}, PAIR, "zip"),
        ],
    )
    def test_an_invalid_row_is_refused(self, inputs: object, columns: tuple[str, ...], words: str) -> None:
        with pytest.raises(ValueError, match=words):
            rows_of(inputs, columns)
