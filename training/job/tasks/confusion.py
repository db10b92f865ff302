"""Scores of classes from a confusion matrix."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from training.job.data.channels import Channel
from training.job.tasks.task import COMMONEST, SOURCE_ROWS


class DataOrder:
    """Order of a channel's rows in the data. They are evaluated in another order."""

    def __init__(self, channel: Channel) -> None:
        file = channel.folder / SOURCE_ROWS
        self.first_rows: list[int] = json.loads(file.read_text("utf-8")) if file.exists() else []
        """Numbers in the data of the first rows, whose predictions an evaluation reports."""
        self._order = channel.rows.numbers.argsort()

    def all(self, values: np.ndarray) -> np.ndarray:
        """Return values of all rows in the order of the data, given those in the order of evaluation."""
        return np.asarray(values[self._order])

    def first(self, values: np.ndarray) -> np.ndarray:
        """Return the values of the first rows, given those of all rows in the order of evaluation."""
        return np.asarray(values[self._order[: len(self.first_rows)]])


class ClassScorer:
    """Computes the scores for Trainer, and keeps the last evaluation's results for the tables."""

    def __init__(self, channel: Channel) -> None:
        self._label_names = list(channel.metadata.label_names)
        self._order = DataOrder(channel)
        self._tables: dict[str, list[dict[str, Any]]] = {}
        self._labels, self._logits = np.zeros(0, int), np.zeros((0, len(self._label_names)))

    def __call__(self, prediction: Any) -> dict[str, float]:
        logits = prediction.predictions[0] if isinstance(prediction.predictions, tuple) else prediction.predictions
        labels, names, order = prediction.label_ids, self._label_names, self._order
        self._labels, self._logits = labels, logits
        matrix = confusion_matrix(labels, logits.argmax(axis=-1), len(names))
        first_rows = prediction_rows(order.first_rows, order.first(labels), order.first(logits), names)
        self._tables = {
            "per_class.json": per_class_rows(matrix, names),
            "confusion_matrix.json": confusion_rows(matrix, names),
            **({"predictions.json": first_rows} if first_rows else {}),
        }
        return {**summary(matrix), **commonest_scores(matrix)}

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Return the tables of the last evaluation, by file name."""
        return self._tables

    def rows(self) -> list[dict[str, Any]]:
        """Return each row's label and the predicted one, and the probability of every label in `scores`."""
        names, logits = self._label_names, self._order.all(self._logits).astype(np.float64)
        exponents = np.exp(logits - logits.max(axis=-1, keepdims=True))
        scores = exponents / exponents.sum(axis=-1, keepdims=True)
        chosen = zip(self._order.all(self._labels).tolist(), logits.argmax(axis=-1).tolist(), scores.tolist())
        return [
            {"reference": names[at], "prediction": names[to], "scores": dict(zip(names, p))} for at, to, p in chosen
        ]


def confusion_matrix(actual: np.ndarray, predicted: np.ndarray, classes: int) -> np.ndarray:
    """Return counts, classes x classes: rows are the true class, columns the predicted one."""
    counts = np.bincount(actual * classes + predicted, minlength=classes * classes)
    return counts.reshape(classes, classes)


def class_scores(matrix: np.ndarray) -> dict[str, np.ndarray]:
    """Return precision, recall, f1 and support of each class; a ratio without a denominator counts as 0."""
    return scores_of_counts(np.diagonal(matrix), matrix.sum(axis=1), matrix.sum(axis=0))


def scores_of_counts(right: np.ndarray, support: np.ndarray, predicted: np.ndarray) -> dict[str, np.ndarray]:
    """Return the scores of classes: `right` of the rows `predicted` as a class are among the `support` rows of it."""
    right = right.astype(float)
    return {
        "precision": _ratio(right, predicted),
        "recall": _ratio(right, support),
        "f1": _ratio(2 * right, support + predicted),
        "support": support,
    }


def summary(matrix: np.ndarray) -> dict[str, float]:
    """Return accuracy, weighted F1, and macro means (over the classes that occur or are predicted, as scikit-learn)."""
    scores = class_scores(matrix)
    present = matrix.sum(axis=0) + matrix.sum(axis=1) > 0
    macro = {f"{name}_macro": float(scores[name][present].mean()) for name in ("precision", "recall", "f1")}
    weighted = float(np.average(scores["f1"], weights=scores["support"]))
    return {"accuracy": float(np.trace(matrix) / matrix.sum()), **macro, "f1_weighted": weighted}


def commonest_scores(matrix: np.ndarray) -> dict[str, float]:
    """Return accuracy and macro F1 of always answering the commonest class, under their names with `COMMONEST`."""
    support, constant = matrix.sum(axis=1), np.zeros_like(matrix)
    constant[:, support.argmax()] = support
    scores = summary(constant)
    return {f"{name}{COMMONEST}": scores[name] for name in ("accuracy", "f1_macro")}


def per_class_rows(matrix: np.ndarray, label_names: Sequence[str]) -> list[dict[str, Any]]:
    """Return one row for each class."""
    return score_rows(class_scores(matrix), label_names)


def score_rows(scores: dict[str, np.ndarray], label_names: Sequence[str]) -> list[dict[str, Any]]:
    """Return one row for each class, given their scores."""
    columns = {name: values.tolist() for name, values in scores.items()}
    return [{"label": label, **dict(zip(columns, row))} for label, *row in zip(label_names, *columns.values())]


def confusion_rows(matrix: np.ndarray, label_names: Sequence[str]) -> list[dict[str, Any]]:
    """Return one row for each pair of classes that occurred. With many classes, most pairs never occur."""
    return [
        {"actual": label_names[actual], "predicted": label_names[predicted], "count": int(matrix[actual, predicted])}
        for actual, predicted in zip(*(numbers.tolist() for numbers in np.nonzero(matrix)))
    ]


def prediction_rows(
    source_rows: Sequence[int], labels: np.ndarray, logits: np.ndarray, label_names: Sequence[str]
) -> list[dict[str, Any]]:
    """Return one row for each prediction, with the model's probability for the predicted class."""
    logits = logits.astype(np.float64)
    # Softmax of the largest logit: 1 / sum of exp(logit - largest).
    probabilities = 1 / np.exp(logits - logits.max(axis=-1, keepdims=True)).sum(axis=-1)
    predictions = zip(source_rows, labels.tolist(), logits.argmax(axis=-1).tolist(), probabilities.tolist())
    return [
        {
            "row": row,
            "label": label_names[label],
            "prediction": label_names[chosen],
            # NaN if the model diverged, which JSON cannot represent.
            "probability": round(probability, 4) if np.isfinite(probability) else None,
        }
        for row, label, chosen, probability in predictions
    ]


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    return np.asarray(np.divide(above, below, out=np.zeros(len(above)), where=below > 0))
