"""Evaluation, a logged model, the local endpoint and SageMaker's container give the same answers and scores."""

from __future__ import annotations

import importlib.util
import json
import random
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from data.channels import read_channel
from data.padding import Collator, Padding
from models.endpoints.sagemaker import requests
from models.inference.predictor import load_predictor
from models.logged import flavor
from models.logged.flavor import Checkpoint
from models.logged.pyfunc import _load_pyfunc
from tasks import question_answering
from tests.support.job.squad_examples import staged
from tests.support.models.task_models import save, sizes
from tests.support.staging.fast_tokenizers import CORPUS, KINDS
from tracking.groups.planned_job import ModelPlan

WINDOW, STRIDE = 48, 12
WORDS = " ".join([*CORPUS, "Żółć — naïve café 😀 in 1999, 東京 and Ünïcödé."]).split(" ")
CONTEXTS = [
    "The Denver Broncos defeated the Carolina Panthers 24–10 to earn their third Super Bowl title.",
    # The words are in random order: equal windows would have equal sums of logits, which only rounding orders.
    f"  {' '.join(random.Random(1).choices(WORDS, k=60))} ",
    " ".join(random.Random(2).choices(WORDS, k=45)),
    "x",
]
QUESTIONS = ["Who won?", "  Where did the Broncos win in 1999?", "why " * 6]
TOP_K = 4

Answer = dict[str, Any]
Question = dict[str, str]


PAIRS = [("wordpiece", 20), ("wordpiece", 1), ("byte_level", 20), ("left_padding", 20)]
"""Kind of tokenizer, and number of likeliest starts and ends that are paired. With one, some questions have no answer.
"""


@pytest.fixture(params=PAIRS, ids=str)
def case(request: pytest.FixtureRequest) -> tuple[str, int]:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def n_best(case: tuple[str, int]) -> int:
    return case[1]


@pytest.fixture
def folder(case: tuple[str, int], tmp_path: Path) -> Path:
    """An MLflow model with random weights. Its `model/` is the model's folder, with the training's options."""
    from transformers import BertConfig, BertForQuestionAnswering, XLNetConfig, XLNetForQuestionAnsweringSimple

    torch.manual_seed(5)
    kind, n_best = case
    tokenizer = KINDS[kind]()
    model: Any
    if kind == "left_padding":
        size = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
        model = XLNetForQuestionAnsweringSimple(XLNetConfig(**size, d_model=16, n_layer=2, n_head=2, d_inner=32))
    else:
        model = BertForQuestionAnswering(BertConfig(**{**sizes(tokenizer, WINDOW), "type_vocab_size": 3}))
    save(tmp_path / "logged" / "model", model.eval(), tokenizer)
    options = {"max_length": WINDOW, "doc_stride": STRIDE, "n_best_answers": n_best, "max_answer_length": 6}
    # `read_checkpoint` does not support XLNet.
    files = tuple(path.name for path in (tmp_path / "logged" / "model").glob("tokenizer*"))
    checkpoint = Checkpoint(
        task="question-answering", architecture=type(model).__name__, label_names=(), tokenizer_files=files
    )
    flavor.write(tmp_path / "logged", checkpoint, ModelPlan(answering=options), {}, run_id="r")
    (tmp_path / "logged" / "model" / "answer_options.json").write_text(json.dumps(options))
    return tmp_path / "logged"


def questions() -> list[Question]:
    return [{"question": question, "context": context} for context in CONTEXTS for question in QUESTIONS]


def test_all_four_give_the_same_answers_and_scores(folder: Path, n_best: int, tmp_path: Path) -> None:
    examples = questions()
    evaluated = evaluation(folder / "model", examples, n_best, tmp_path)
    local, logged, container = (
        make(folder, tmp_path)(examples) for make in (local_endpoint, logged_model, sagemaker_container)
    )
    for at, expected in enumerate(evaluated):
        best = expected[0] if expected else {"answer": "", "score": 0.0, "start": 0, "end": 0}
        for name, answers in (("local", local), ("logged", logged), ("container", container)):
            first, *others = answers[at]
            for answer, correct in [(first, best), *zip(others, expected, strict=bool(others))]:
                assert answer["score"] == pytest.approx(correct["score"], rel=1e-3), (name, examples[at])
                assert {**answer, "score": 0} == {**correct, "score": 0}, (name, examples[at])
    assert ([] in evaluated) == (n_best == 1)


def evaluation(model_folder: Path, examples: list[Question], n_best: int, tmp_path: Path) -> list[list[Answer]]:
    """Return the best answers by a search through the evaluation's logits.

    Asserts that the evaluation's scorer gives the same best answers.
    """
    from transformers import AutoModelForQuestionAnswering

    file = tmp_path / "squad.json"
    rows = [
        {"context": each["context"], "qas": [{"id": str(at), "question": each["question"], "answers": []}]}
        for at, each in enumerate(examples)
    ]
    file.write_text(json.dumps({"data": [{"paragraphs": rows}]}))
    options = {"max_length": WINDOW, "doc_stride": STRIDE, "n_best_answers": n_best, "max_answer_length": 6}
    channel = read_channel(
        staged(tmp_path, file, model_folder, **options)["validation"], "question-answering", question_answering.COLUMNS
    ).sorted_by_length()
    model = AutoModelForQuestionAnswering.from_pretrained(model_folder).eval()
    collate = Collator(Padding("longest", channel.metadata.max_length), channel.metadata, question_answering.targets)
    longest = channel.rows.lengths.max()
    parts: list[list[np.ndarray]] = [[], [], [], []]
    for start in range(0, len(channel.rows), 4):
        batch = collate([channel.rows[at] for at in range(start, min(start + 4, len(channel.rows)))])
        labels = [batch.pop(name).numpy() for name in question_answering.LABELS]
        with torch.inference_mode():
            output = model(**batch)
        for part, logits in zip(parts, (output.start_logits, output.end_logits), strict=False):
            array = logits.numpy()
            part.append(np.pad(array, ((0, 0), (0, longest - array.shape[1])), constant_values=-100))
        parts[2].append(labels[0])
        parts[3].append(labels[1])
    starts, ends, *labels = (np.concatenate(each) for each in parts)
    scorer = question_answering.Scorer(channel)
    scorer(SimpleNamespace(predictions=(starts, ends), label_ids=tuple(labels)))
    shift = labels[0] - channel.rows.columns["start_position"]
    best_answers = list(search_answers(scorer._questions, starts, ends, shift, n_best))
    texts = [row["prediction"] for row in scorer.tables()["predictions.json"]]
    assert len(channel.rows) > 2 * len(examples)
    assert texts == [answers[0]["answer"] if answers else "" for answers in best_answers]
    return best_answers


def search_answers(
    questions: Any, starts: np.ndarray, ends: np.ndarray, shift: np.ndarray, n_best: int
) -> Iterator[list[Answer]]:
    """Yield the best answers of each question, by a search through all pairs of all windows."""
    for number, context in enumerate(questions.contexts):
        totals = np.zeros(2)
        best: dict[tuple[int, int], float] = {}
        for row in np.flatnonzero(questions.windows.question == number):
            _, at, offset, tokens = (values[row] for values in questions.windows)
            window = [logits[row, at + shift[row] :][:tokens].astype(float) for logits in (starts, ends)]
            totals += [np.exp(logits).sum() for logits in window]
            likely = [set(np.argsort(-logits, kind="stable")[:n_best].tolist()) for logits in window]
            for first in likely[0]:
                for last in likely[1]:
                    if 0 <= last - first < 6:
                        span, product = (first + offset, last + offset), np.exp(window[0][first] + window[1][last])
                        best[span] = max(best.get(span, 0.0), product)
        answers = []
        for (first, last), product in sorted(best.items(), key=lambda item: -item[1])[:TOP_K]:
            start, end = int(questions.token_starts[number][first]), int(questions.token_ends[number][last])
            piece = context[start:end]
            begin = start + len(piece) - len(piece.lstrip())
            finish = max(begin, end - len(piece) + len(piece.rstrip()))
            score = float(product / totals.prod())
            answers.append({"answer": piece.strip(), "score": score, "start": begin, "end": finish})
        yield answers


AnswerFunction = Callable[[list[Question]], list[list[Answer]]]
"""Returns the best answer to each question, followed by the `TOP_K` best answers if these can be requested."""


def local_endpoint(folder: Path, tmp_path: Path) -> AnswerFunction:
    predictor = load_predictor(folder / "model", precision="fp32")
    return lambda examples: [
        [one, *several]
        for one, several in zip(predictor.answer(examples), predictor.answer(examples, {"top_k": TOP_K}), strict=True)
    ]


def logged_model(folder: Path, tmp_path: Path) -> AnswerFunction:
    config = flavor.Model.load(str(folder)).flavors["python_function"]["config"]
    # Remove the options from the model's folder: the logged model must read them from its own configuration.
    (folder / "model" / "answer_options.json").rename(tmp_path / "answer_options.json")
    model = _load_pyfunc(str(folder), config)
    (tmp_path / "answer_options.json").rename(folder / "model" / "answer_options.json")
    return lambda examples: [[answer] for answer in model.predict(examples).to_dict(orient="records")]


def sagemaker_container(folder: Path, tmp_path: Path) -> AnswerFunction:
    files = requests.archive_files(folder / "model", with_code=True)
    archive = requests.pack(files, tmp_path / "model.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path / "container", filter="data")
    code = load_module(tmp_path / "container" / "code" / "inference.py")
    reader = code.model_fn(str(tmp_path / "container"))
    return lambda examples: [
        [code.predict_fn({"inputs": each}, reader), *code.predict_fn(request(each), reader)] for each in examples
    ]


def request(question: Question) -> dict[str, Any]:
    return {"inputs": question, "parameters": {"top_k": TOP_K}}


def load_module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{path.stem}_of_a_copy", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
