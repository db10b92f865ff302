"""Classification in the job: predictions by hand, and pairs of texts in models with and without token types."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from data.channels import read_channel
from tasks import classification

Writer = Callable[..., None]


def test_prediction_rows_by_hand() -> None:
    # Equal logits have equal probabilities; ln 3 against 0 is 3 : 1; NaN has no probability.
    logits = np.array([[0.0, 0.0], [0.0, np.log(3)], [np.nan, np.nan]], dtype=np.float32)
    assert classification.prediction_rows([2, 3, 7], np.array([1, 1, 0]), logits, ["no", "yes"]) == [
        {"row": 2, "label": "yes", "prediction": "no", "probability": 0.5},
        {"row": 3, "label": "yes", "prediction": "yes", "probability": 0.75},
        {"row": 7, "label": "no", "prediction": "no", "probability": None},
    ]


def test_predictions_are_reported_in_the_order_of_the_data(tmp_path: Path, channel_writer: Writer) -> None:
    """Rows are evaluated by length. Here, the longest row is first in the data, and two of three rows are reported."""
    channel_writer(tmp_path, [[5, 6, 7], [8], [9, 10]], [0, 1, 0])
    (tmp_path / "source_rows.json").write_text("[12, 15]")
    channel = read_channel(tmp_path, "classification", classification.COLUMNS)
    scorer = classification.Scorer(replace(channel, rows=channel.rows.sorted_by_length()))
    logits = np.array([[9.0, 0.0], [0.0, 9.0], [0.0, 9.0]])
    scorer(SimpleNamespace(predictions=logits, label_ids=np.array([1, 0, 0])))
    rows = scorer.tables()["predictions.json"]
    assert [(row["row"], row["label"], row["prediction"]) for row in rows] == [
        (12, "calm", "wild é"),
        (15, "wild é", "calm"),
    ]


KINDS = {
    "distilbert": {"dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 32},
    "roberta": {
        "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32,
        "type_vocab_size": 1, "pad_token_id": 0,
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_work_with_and_without_token_types(job: Any, channel_writer: Writer, kind: str) -> None:
    """A tokenizer may produce token types that its model does not accept."""
    config = {"model_type": kind, "vocab_size": 50, "max_position_embeddings": 20, **KINDS[kind]}
    model = job.folder / kind
    model.mkdir()
    (model / "config.json").write_text(json.dumps(config))
    (model / "vocab.txt").write_text("the vocabulary")
    job.environment["SM_CHANNEL_MODEL"] = str(model)
    ids = [[1, 10 + at % 2, 2, 20, 2] for at in range(24)]
    types = [[0, 0, 0, 1, 1]] * 24
    for channel in ("train", "validation"):
        channel_writer(job.folder / channel, ids, [at % 3 for at in range(24)], types, label_names=["a", "b", "c"])
    result = job.run(max_steps=2, weights="random", save_model="false").result
    # Channels without source rows have no predictions.
    assert set(result["tables"]) == {"per_class.json", "confusion_matrix.json"}
    assert [row["support"] for row in result["tables"]["per_class.json"]] == [8, 8, 8]
    assert sum(row["count"] for row in result["tables"]["confusion_matrix.json"]) == 24


# Class 0: two rows are right, one is predicted as 1. Class 1: one is right, one is predicted as 0. Class 2 occurs once
# and is never predicted. Class 3 does not occur.
MATRIX = np.array([[2, 1, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]])


def test_confusion_matrix_and_scores_by_hand() -> None:
    actual, predicted = np.array([0, 0, 0, 1, 1, 2]), np.array([0, 1, 0, 0, 1, 0])
    assert classification.confusion_matrix(actual, predicted, 4).tolist() == MATRIX.tolist()
    summary = classification.summary(MATRIX)
    assert summary["accuracy"] == pytest.approx(3 / 6)
    # f1: 2*2/(3+4), 2*1/(2+2), 0. The fourth class neither occurs nor is predicted, so it is left out.
    assert summary["f1_macro"] == pytest.approx((4 / 7 + 1 / 2 + 0) / 3)
    assert summary["precision_macro"] == pytest.approx((2 / 4 + 1 / 2 + 0) / 3)
    assert summary["recall_macro"] == pytest.approx((2 / 3 + 1 / 2 + 0) / 3)
    assert summary["f1_weighted"] == pytest.approx((3 * 4 / 7 + 2 * 1 / 2) / 6)
    rows = classification.per_class_rows(MATRIX, ["a", "b", "c", "d"])
    two_thirds, four_sevenths = pytest.approx(2 / 3), pytest.approx(4 / 7)
    assert rows[0] == {"label": "a", "precision": 0.5, "recall": two_thirds, "f1": four_sevenths, "support": 3}
    assert rows[3] == {"label": "d", "precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 0}
    # Empty cells are omitted.
    assert classification.confusion_rows(MATRIX, ["a", "b", "c", "d"]) == [
        {"actual": "a", "predicted": "a", "count": 2},
        {"actual": "a", "predicted": "b", "count": 1},
        {"actual": "b", "predicted": "a", "count": 1},
        {"actual": "b", "predicted": "b", "count": 1},
        {"actual": "c", "predicted": "a", "count": 1},
    ]
