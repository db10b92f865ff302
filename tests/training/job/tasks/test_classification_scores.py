"""Classification scores, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tasks import classification_scores

# Class 0: two rows are right, one is predicted as 1. Class 1: one is right, one is predicted as 0. Class 2 occurs once
# and is never predicted. Class 3 does not occur.
MATRIX = np.array([[2, 1, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]])


def test_confusion_matrix() -> None:
    actual, predicted = np.array([0, 0, 0, 1, 1, 2]), np.array([0, 1, 0, 0, 1, 0])
    assert classification_scores.confusion_matrix(actual, predicted, 4).tolist() == MATRIX.tolist()


def test_summary_by_hand() -> None:
    summary = classification_scores.summary(MATRIX)
    assert summary["accuracy"] == pytest.approx(3 / 6)
    # f1: 2*2/(3+4), 2*1/(2+2), 0. The fourth class neither occurs nor is predicted, so it is left out.
    assert summary["f1_macro"] == pytest.approx((4 / 7 + 1 / 2 + 0) / 3)
    assert summary["precision_macro"] == pytest.approx((2 / 4 + 1 / 2 + 0) / 3)
    assert summary["recall_macro"] == pytest.approx((2 / 3 + 1 / 2 + 0) / 3)
    assert summary["f1_weighted"] == pytest.approx((3 * 4 / 7 + 2 * 1 / 2) / 6)


def test_per_class_rows() -> None:
    rows = classification_scores.per_class_rows(MATRIX, ["a", "b", "c", "d"])
    two_thirds, four_sevenths = pytest.approx(2 / 3), pytest.approx(4 / 7)
    assert rows[0] == {"label": "a", "precision": 0.5, "recall": two_thirds, "f1": four_sevenths, "support": 3}
    assert rows[3] == {"label": "d", "precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 0}


def test_confusion_rows_omit_empty_cells() -> None:
    assert classification_scores.confusion_rows(MATRIX, ["a", "b", "c", "d"]) == [
        {"actual": "a", "predicted": "a", "count": 2},
        {"actual": "a", "predicted": "b", "count": 1},
        {"actual": "b", "predicted": "a", "count": 1},
        {"actual": "b", "predicted": "b", "count": 1},
        {"actual": "c", "predicted": "a", "count": 1},
    ]
