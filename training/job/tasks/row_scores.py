"""Scores of rows with a class, several labels or a number. Those of classes follow from a confusion matrix."""

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from training.job.data.channels import Channel
from training.job.tasks.task import COMMONEST, SOURCE_ROWS


class RowScorer:
    """Keeps the labels and logits of the last evaluation, in the order of the data. Rows are evaluated in another."""

    def __init__(self, channel: Channel) -> None:
        file = channel.folder / SOURCE_ROWS
        self.first_rows: list[int] = json.loads(file.read_text("utf-8")) if file.exists() else []
        """Numbers in the data of the first rows, whose predictions an evaluation reports."""
        self.label_names = list(channel.metadata.label_names)
        self.labels: Any = np.zeros(0)
        self.logits: Any = np.zeros(0)
        self._order = channel.rows.numbers.argsort()

    def __call__(self, prediction: Any) -> dict[str, float]:
        logits = prediction.predictions[0] if isinstance(prediction.predictions, tuple) else prediction.predictions
        self.labels, self.logits = prediction.label_ids[self._order], logits[self._order].astype(np.float64)
        return self.scores()

    def scores(self) -> dict[str, float]:
        raise NotImplementedError


class ClassScorer(RowScorer):
    """Computes the scores of classes, and the tables."""

    def scores(self) -> dict[str, float]:
        matrix = self._matrix()
        return {"loss": cross_entropy(self.logits, self.labels), **summary(matrix), **commonest_scores(matrix)}

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        if not len(self.labels):
            return {}
        matrix, names = self._matrix(), self.label_names
        first_rows = prediction_rows(self.first_rows, self.labels, self.logits, names)
        return {
            "per_class.json": score_rows(class_scores(matrix), names),
            "confusion_matrix.json": confusion_rows(matrix, names),
            **({"predictions.json": first_rows} if first_rows else {}),
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return each row's label and the predicted one, and the probability of every label in `scores`."""
        names, logits = self.label_names, self.logits
        exponents = np.exp(logits - logits.max(axis=-1, keepdims=True))
        scores = exponents / exponents.sum(axis=-1, keepdims=True)
        chosen = zip(self.labels.tolist(), logits.argmax(axis=-1).tolist(), scores.tolist())
        return [
            {"reference": names[at], "prediction": names[to], "scores": dict(zip(names, p))} for at, to, p in chosen
        ]

    def _matrix(self) -> np.ndarray:
        return confusion_matrix(self.labels, self.logits.argmax(axis=-1), len(self.label_names))


class LabelScorer(RowScorer):
    """Computes the scores of several labels a row, and the tables."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel)
        self._threshold = channel.metadata.options["threshold"]

    def scores(self) -> dict[str, float]:
        actual = self.labels > 0.5
        commonest = np.zeros_like(actual)
        commonest[:, actual.sum(axis=0).argmax()] = True
        always = label_scores(actual, commonest)
        return {
            "loss": float((np.logaddexp(0, self.logits) - actual * self.logits).mean()),
            **label_scores(actual, self._predicted(self._threshold)),
            **{name + COMMONEST: score for name, score in always.items()},
        }

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        if not len(self.labels):
            return {}
        actual, thresholds = self.labels > 0.5, []
        for threshold in (at / 20 for at in range(1, 20)):
            predicted = self._predicted(threshold)
            mean = float(predicted.sum(axis=1).mean())
            thresholds.append({"threshold": threshold, **label_scores(actual, predicted), "labels_per_row": mean})
        rows = [
            {"row": row, **{name: "; ".join(labels) for name, labels in self._row(*pair).items()}}
            for row, pair in zip(self.first_rows, zip(self.labels, self.logits))
        ]
        return {
            "per_class.json": score_rows(
                scores_of_counts(*_counts(actual, self._predicted(self._threshold))), self.label_names
            ),
            "thresholds.json": thresholds,
            **({"predictions.json": rows} if rows else {}),
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return each row's labels and the predicted ones, and the probability of every label in `scores`."""
        scores = (1 / (1 + np.exp(-self.logits))).tolist()
        return [
            {**self._row(*pair), "scores": dict(zip(self.label_names, own))}
            for pair, own in zip(zip(self.labels, self.logits), scores)
        ]

    def _row(self, labels: np.ndarray, logits: np.ndarray) -> dict[str, Any]:
        return {
            "reference": [self.label_names[at] for at in labels.nonzero()[0]],
            "prediction": [self.label_names[at] for at in above(logits.tolist(), self._threshold)],
        }

    def _predicted(self, threshold: float) -> np.ndarray:
        return np.asarray(self.logits > _logit(threshold))


class NumberScorer(RowScorer):
    """Computes the scores of numbers, and the table."""

    def scores(self) -> dict[str, float]:
        self.labels, self.logits = (values.reshape(-1).astype(np.float64) for values in (self.labels, self.logits))
        return number_scores(self.labels, self.logits)

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        rows = [
            # NaN if the model diverged, which JSON cannot represent.
            {"row": row, "label": actual, "prediction": predicted if math.isfinite(predicted) else None}
            for row, actual, predicted in zip(self.first_rows, self.labels.tolist(), self.logits.tolist())
        ]
        return {"predictions.json": rows} if rows else {}

    def rows(self) -> list[dict[str, Any]]:
        """Return each row's number and the predicted one."""
        pairs = zip(self.labels.tolist(), self.logits.tolist())
        return [{"reference": actual, "prediction": predicted} for actual, predicted in pairs]


def number_scores(actual: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Return the loss, correlations and errors, and the same of always answering the mean. Its correlations are 0."""
    errors, of_mean = predicted - actual, actual - actual.mean()
    return {
        "loss": float((errors**2).mean()),
        "spearman": spearman(predicted, actual),
        "pearson": pearson(predicted, actual),
        "rmse": float((errors**2).mean()) ** 0.5,
        "mae": float(abs(errors).mean()),
        f"spearman{COMMONEST}": 0.0,
        f"pearson{COMMONEST}": 0.0,
        f"rmse{COMMONEST}": float((of_mean**2).mean()) ** 0.5,
        f"mae{COMMONEST}": float(abs(of_mean).mean()),
    }


def ranks(values: np.ndarray) -> np.ndarray:
    """Return the ranks of values from 0. Equal values share the mean of their ranks."""
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts + 1) / 2)[group])


def pearson(first: np.ndarray, second: np.ndarray) -> float:
    """Return the correlation of two rows of numbers, from -1 to 1; 0 if all numbers of a row are equal."""
    one, two = (values.astype("float64") - values.mean(dtype="float64") for values in (first, second))
    scale = float((one @ one) * (two @ two)) ** 0.5
    return float(one @ two) / scale if scale > 0 else 0.0


def spearman(first: np.ndarray, second: np.ndarray) -> float:
    """Return the correlation of the ranks of two rows of numbers."""
    return pearson(ranks(first), ranks(second))


def _logit(threshold: float) -> float:
    return math.log(threshold / (1 - threshold)) if threshold < 1 else math.inf


def above(logits: Sequence[float], threshold: float) -> list[int]:
    """Return the numbers of the classes whose probability is above the threshold, the likeliest first."""
    limit = _logit(threshold)
    return sorted((at for at, logit in enumerate(logits) if logit > limit), key=lambda at: -logits[at])


def label_scores(actual: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Return micro and macro F1, as scikit-learn, and the share of rows with exactly their labels.

    Both arrays have a truth value for each class of each row. An F1 without a denominator counts as 0.
    """
    counts = _counts(actual, predicted)
    return {
        "f1_micro": float(scores_of_counts(*(each.sum(keepdims=True) for each in counts))["f1"][0]),
        "f1_macro": float(scores_of_counts(*counts)["f1"].mean()),
        "exact_labels": float((actual == predicted).all(axis=1).mean()),
    }


def _counts(actual: np.ndarray, predicted: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return, for each class, the rows that have it and are predicted to, that have it, and that are predicted to."""
    return (actual & predicted).sum(axis=0), actual.sum(axis=0), predicted.sum(axis=0)


def cross_entropy(logits: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean loss of rows, given their logits, rows x classes."""
    logits = logits - logits.max(axis=1, keepdims=True).astype(np.float64)
    return float((np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(labels)), labels]).mean())


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
    """Return one row for each of the first predictions, with the model's probability for the predicted class."""
    labels, logits = labels[: len(source_rows)], logits[: len(source_rows)].astype(np.float64)
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
