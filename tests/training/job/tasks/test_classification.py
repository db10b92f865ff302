"""Classification in the job: predictions and scores by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from judging.design import Design
from reports.comparison.comparison import judge
from reports.comparison.messages import quality_sentence
from tests.support.job.job_process import Job, write_channel
from tests.support.reports.verdicts import arm, numbered
from tracking.recorded.waves import measure_of, one_look
from training.job.data.channels import read_channel
from training.job.tasks import TASKS, row_scores

Writer = Callable[..., None]


def test_prediction_rows_by_hand() -> None:
    # Equal logits have equal probabilities; ln 3 against 0 is 3 : 1; NaN has no probability.
    logits = np.array([[0.0, 0.0], [0.0, np.log(3)], [np.nan, np.nan]], dtype=np.float32)
    assert row_scores.prediction_rows([2, 3, 7], np.array([1, 1, 0]), logits, ["no", "yes"]) == [
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
    assert row_scores.confusion_matrix(actual, predicted, 4).tolist() == MATRIX.tolist()
    summary = row_scores.summary(MATRIX)
    assert summary["accuracy"] == pytest.approx(3 / 6)
    # f1: 2*2/(3+4), 2*1/(2+2), 0. The fourth class neither occurs nor is predicted, so it is left out.
    assert summary["f1_macro"] == pytest.approx((4 / 7 + 1 / 2 + 0) / 3)
    assert summary["precision_macro"] == pytest.approx((2 / 4 + 1 / 2 + 0) / 3)
    assert summary["recall_macro"] == pytest.approx((2 / 3 + 1 / 2 + 0) / 3)
    assert summary["f1_weighted"] == pytest.approx((3 * 4 / 7 + 2 * 1 / 2) / 6)
    # Always class 0: accuracy 3/6; its f1 is 2*3/(3+6), and the other two classes have 0.
    assert row_scores.commonest_scores(MATRIX) == pytest.approx(
        {"accuracy_commonest": 0.5, "f1_macro_commonest": 2 / 9}
    )
    rows = row_scores.score_rows(row_scores.class_scores(MATRIX), ["a", "b", "c", "d"])
    two_thirds, four_sevenths = pytest.approx(2 / 3), pytest.approx(4 / 7)
    assert rows[0] == {"label": "a", "precision": 0.5, "recall": two_thirds, "f1": four_sevenths, "support": 3}
    assert rows[3] == {"label": "d", "precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 0}
    # Empty cells are omitted.
    assert row_scores.confusion_rows(MATRIX, ["a", "b", "c", "d"]) == [
        {"actual": "a", "predicted": "a", "count": 2},
        {"actual": "a", "predicted": "b", "count": 1},
        {"actual": "b", "predicted": "a", "count": 1},
        {"actual": "b", "predicted": "b", "count": 1},
        {"actual": "c", "predicted": "a", "count": 1},
    ]


def test_an_arm_that_learns_nothing_keeps_no_quality(job: Job) -> None:
    """970 rows of class 0 and 30 of class 1, whose tokens do not differ: a real training learns to answer class 0."""
    for channel, rows, rare in (("train", 64, 2), ("validation", 1000, 30)):
        write_channel(job.folder / channel, [[5 + at % 40, 7] for at in range(rows)], [1] * rare + [0] * (rows - rare))
    ended = job.run(learning_rate=0.01, max_steps=16, eval_batch_size=100)
    metrics = {name: value for name, value in ended.result["metrics"].items() if name.startswith("eval_")}
    # The f1 of class 0 is 2 * 0.97 / 1.97, and of class 1 it is 0.
    scores = {"eval_accuracy": 0.97, "eval_f1_macro": pytest.approx(0.97 / 1.97)}
    assert metrics.items() >= {**scores, **{f"{name}_commonest": score for name, score in scores.items()}}.items()
    logged = [event["values"] for event in ended.events("metric")]
    assert any("eval_accuracy" in values for values in logged)
    assert not any(name.endswith("_commonest") for values in logged for name in values)

    constant = {name: value for name, value in metrics.items() if name.endswith("_commonest")}
    good = arm(100.0, 101.0, 102.0, label="good", **{**constant, "eval_accuracy": 0.985, "eval_f1_macro": 0.8})
    # Its accuracy is within the margin of 0.03.
    lazy = arm(80.0, 81.0, 82.0, label="lazy", **metrics)
    for chosen, column in (("", "eval_f1_macro"), ("eval_accuracy", "eval_accuracy")):
        sides = [numbered(side.label, *side.jobs, hp_best_metric=chosen) for side in (good, lazy)]
        measure = measure_of([job for side in sides for job in side.jobs])
        assert measure is not None
        assert measure.column == column
        progress = one_look(Design(looks=(3,)), sides)
        verdict = judge(sides[1], sides[0], measure, progress=progress)
        assert verdict.quality is not None
        assert (verdict.outcome != "cheaper", verdict.quality.kept) == (True, False)
        assert "and the arm is not shown to be above it." in quality_sentence(verdict.quality)
