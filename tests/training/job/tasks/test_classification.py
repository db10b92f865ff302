"""Classification in the job: predictions and scores by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from training.job.data.channels import read_channel
from training.job.tasks import TASKS, confusion

Writer = Callable[..., None]


def test_prediction_rows_by_hand() -> None:
    # Equal logits have equal probabilities; ln 3 against 0 is 3 : 1; NaN has no probability.
    logits = np.array([[0.0, 0.0], [0.0, np.log(3)], [np.nan, np.nan]], dtype=np.float32)
    assert confusion.prediction_rows([2, 3, 7], np.array([1, 1, 0]), logits, ["no", "yes"]) == [
        {"row": 2, "label": "yes", "prediction": "no", "probability": 0.5},
        {"row": 3, "label": "yes", "prediction": "yes", "probability": 0.75},
        {"row": 7, "label": "no", "prediction": "no", "probability": None},
    ]


def test_predictions_are_reported_in_the_order_of_the_data(tmp_path: Path, channel_writer: Writer) -> None:
    """Rows are evaluated by length. Here, the longest row is first in the data, and two of three rows are reported."""
    channel_writer(tmp_path, [[5, 6, 7], [8], [9, 10]], [0, 1, 0])
    (tmp_path / "source_rows.json").write_text("[12, 15]")
    channel = read_channel(tmp_path, "classification", TASKS["classification"].integer_columns)
    scorer = TASKS["classification"].scorer(replace(channel, rows=channel.rows.sorted_by_length()))
    logits = np.array([[9.0, 0.0], [0.0, 9.0], [0.0, 9.0]])
    scorer(SimpleNamespace(predictions=logits, label_ids=np.array([1, 0, 0])))
    rows = scorer.tables()["predictions.json"]
    assert [(row["row"], row["label"], row["prediction"]) for row in rows] == [
        (12, "calm", "wild é"),
        (15, "wild é", "calm"),
    ]


# Class 0: two rows are right, one is predicted as 1. Class 1: one is right, one is predicted as 0. Class 2 occurs once
# and is never predicted. Class 3 does not occur.
MATRIX = np.array([[2, 1, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]])


def test_confusion_matrix_and_scores_by_hand() -> None:
    actual, predicted = np.array([0, 0, 0, 1, 1, 2]), np.array([0, 1, 0, 0, 1, 0])
    assert confusion.confusion_matrix(actual, predicted, 4).tolist() == MATRIX.tolist()
    summary = confusion.summary(MATRIX)
    assert summary["accuracy"] == pytest.approx(3 / 6)
    # f1: 2*2/(3+4), 2*1/(2+2), 0. The fourth class neither occurs nor is predicted, so it is left out.
    assert summary["f1_macro"] == pytest.approx((4 / 7 + 1 / 2 + 0) / 3)
    assert summary["precision_macro"] == pytest.approx((2 / 4 + 1 / 2 + 0) / 3)
    assert summary["recall_macro"] == pytest.approx((2 / 3 + 1 / 2 + 0) / 3)
    assert summary["f1_weighted"] == pytest.approx((3 * 4 / 7 + 2 * 1 / 2) / 6)
    rows = confusion.per_class_rows(MATRIX, ["a", "b", "c", "d"])
    two_thirds, four_sevenths = pytest.approx(2 / 3), pytest.approx(4 / 7)
    assert rows[0] == {"label": "a", "precision": 0.5, "recall": two_thirds, "f1": four_sevenths, "support": 3}
    assert rows[3] == {"label": "d", "precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 0}
    # Empty cells are omitted.
    assert confusion.confusion_rows(MATRIX, ["a", "b", "c", "d"]) == [
        {"actual": "a", "predicted": "a", "count": 2},
        {"actual": "a", "predicted": "b", "count": 1},
        {"actual": "b", "predicted": "a", "count": 1},
        {"actual": "b", "predicted": "b", "count": 1},
        {"actual": "c", "predicted": "a", "count": 1},
    ]
