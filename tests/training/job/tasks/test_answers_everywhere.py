"""Evaluation, the local endpoint and SageMaker's container give the same answers and scores."""

from __future__ import annotations

import importlib.util
import json
import random
import tarfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from models.endpoints.sagemaker import endpoints
from models.inference.predictor import load_predictor
from tests.support.job.squad_examples import staged
from tests.support.models.task_models import save, sizes
from tests.support.staging.fast_tokenizers import CORPUS, KINDS
from training.job.data.channels import read_channel
from training.job.data.padding import Collator, Padding
from training.job.tasks import TASKS

TASK = TASKS["question-answering"]
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


PAIRS = [
    *(("wordpiece", 20, None), ("wordpiece", 1, None), ("byte_level", 20, None), ("left_padding", 20, None)),
    *(("wordpiece", 20, 0.1), ("byte_level", 20, -0.1), ("left_padding", 20, -3.0)),
]
"""Kind of tokenizer, number of likeliest starts and ends that are paired (with one, some questions have no possible
span), and threshold of the empty answer; None if the questions of the training have answers."""


def random_model(kind: str, n_best: int, null_threshold: float | None, tmp_path: Path) -> Path:
    """Write a model with random weights and the options of its training, and return its folder."""
    from transformers import BertConfig, BertForQuestionAnswering, XLNetConfig, XLNetForQuestionAnsweringSimple

    torch.manual_seed(5)
    tokenizer = KINDS[kind]()
    model: Any
    if kind == "left_padding":
        size = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
        model = XLNetForQuestionAnsweringSimple(XLNetConfig(**size, d_model=16, n_layer=2, n_head=2, d_inner=32))
    else:
        model = BertForQuestionAnswering(BertConfig(**{**sizes(tokenizer, WINDOW), "type_vocab_size": 3}))
    save(tmp_path / "model", model.eval(), tokenizer)
    options = {"max_length": WINDOW, "doc_stride": STRIDE, "n_best_answers": n_best, "max_answer_length": 6}
    options |= {} if null_threshold is None else {"null_threshold": null_threshold}
    (tmp_path / "model" / "answer_options.json").write_text(json.dumps(options))
    return tmp_path / "model"


@pytest.mark.parametrize(("kind", "n_best", "threshold"), PAIRS)
def test_all_three_give_the_same_answers_and_scores(
    kind: str, n_best: int, threshold: float | None, tmp_path: Path
) -> None:
    folder = random_model(kind, n_best, threshold, tmp_path)
    examples = [{"question": question, "context": context} for context in CONTEXTS for question in QUESTIONS]
    evaluated = evaluation(folder, examples, n_best, threshold, tmp_path)
    local, container = (make(folder, tmp_path)(examples) for make in (local_endpoint, sagemaker_container))
    for at, example in enumerate(examples):
        assert local[at][0]["answer"] == evaluated[at], example
        for answer, expected in zip(container[at], local[at], strict=True):
            assert answer["score"] == pytest.approx(expected["score"], rel=1e-3), example
            assert {**answer, "score": 0} == {**expected, "score": 0}, example
    # With one pair, some questions have no possible span: the list of several is empty.
    assert any(len(answers) == 1 for answers in local) == (n_best == 1)
    empty = [not answers[0]["answer"] for answers in local]
    assert n_best == 1 or any(empty) == (threshold is not None)
    assert not all(empty)


def evaluation(
    model_folder: Path, examples: list[Question], n_best: int, threshold: float | None, tmp_path: Path
) -> list[str]:
    """Return the best answers of an evaluation."""
    from transformers import AutoModelForQuestionAnswering

    file = tmp_path / "squad.json"
    rows = [
        {"context": each["context"], "qas": [{"id": str(at), "question": each["question"], "answers": []}]}
        for at, each in enumerate(examples)
    ]
    if threshold is None:
        for row in rows:
            first = row["context"].split()[0]
            row["qas"][0]["answers"] = [{"text": first, "answer_start": row["context"].index(first)}]
    file.write_text(json.dumps({"data": [{"paragraphs": rows}]}))
    options = {"max_length": WINDOW, "doc_stride": STRIDE, "n_best_answers": n_best, "max_answer_length": 6}
    folder = staged(tmp_path, file, model_folder, **options, null_threshold=threshold or 0.0)["validation"]
    channel = read_channel(folder, "question-answering", TASK.integer_columns)
    model = AutoModelForQuestionAnswering.from_pretrained(model_folder).eval()
    collate = Collator(Padding("longest", channel.metadata.max_length), channel.metadata, TASK.targets)
    batch = collate([channel.rows[at] for at in range(len(channel.rows))])
    labels = tuple(batch.pop(name).numpy() for name in TASK.label_inputs)
    with torch.inference_mode():
        output = model(**batch)
    scorer = TASK.scorer(channel)
    logits = (output.start_logits.numpy(), output.end_logits.numpy())
    scorer(SimpleNamespace(predictions=logits, label_ids=labels))
    assert len(channel.rows) > 2 * len(examples)
    return [row["prediction"] for row in scorer.tables()["predictions.json"]]


AnswerFunction = Callable[[list[Question]], list[list[Answer]]]
"""Returns the best answer to each question, followed by the `TOP_K` best answers."""


def local_endpoint(folder: Path, tmp_path: Path) -> AnswerFunction:
    predictor = load_predictor(folder, precision="fp32")
    return lambda examples: [
        [one, *several]
        for one, several in zip(predictor.answer(examples), predictor.answer(examples, {"top_k": TOP_K}), strict=True)
    ]


def sagemaker_container(folder: Path, tmp_path: Path) -> AnswerFunction:
    files = endpoints.archive_files(folder, with_code=True)
    archive = endpoints.pack(files, tmp_path / "model.tar.gz")
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
