"""Filler rows at the end of an evaluation are not scored."""

from __future__ import annotations

from typing import Any

import numpy as np
from transformers import EvalPrediction

from loop.job_trainer import _without_filler


def first_values(prediction: Any) -> dict[str, float]:
    logits, hidden = prediction.predictions
    assert len(logits) == len(hidden)
    return {"rows": len(logits), "labels": float(prediction.label_ids.sum())}


def test_only_the_rows_of_the_data_are_scored() -> None:
    predictions, labels = (np.zeros((16, 2)), np.zeros((16, 3))), np.array([1.0] * 13 + [100.0] * 3)
    score = _without_filler(first_values, 13)
    assert score(EvalPrediction(predictions, labels)) == {"rows": 13, "labels": 13.0}
    assert _without_filler(first_values, 20)(EvalPrediction(predictions, labels))["rows"] == 16


def test_a_prediction_without_labels_is_scored() -> None:
    score = _without_filler(lambda prediction: {"rows": len(prediction.predictions)}, 2)
    assert score(EvalPrediction(np.zeros((3, 2)), None)) == {"rows": 2}
