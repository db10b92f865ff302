"""Sequence classification: one label for each row, scored from a confusion matrix with NumPy alone."""

import json
from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from training.job.data.channels import DATA, Channel, ChannelMetadata
from training.job.data.padding import IGNORED_LABEL, Batch
from training.job.processes.reporting import BadData
from training.job.weights.pretrained import Pretrained, load

COLUMNS = ("label",)
LABELS = ("labels",)
SOURCE_ROWS = "source_rows.json"
"""File in the channel: a list with the row numbers, in the user's data, of the channel's first rows. The predictions
for these rows are reported."""


def check(channel: Channel) -> None:
    """Raise `BadData` if a row has a class without a name."""
    labels, classes = channel.rows.columns["label"], len(channel.metadata.label_names)
    outside = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(outside):
        at = outside[0]
        file = channel.folder / DATA
        raise BadData(f"{file}: row {at} has label {labels[at]}, but labels are 0 to {classes - 1}")


def load_model(pretrained: Pretrained, metadata: ChannelMetadata) -> Any:
    """Return the model with a head for the labels."""
    from transformers import AutoModelForSequenceClassification

    names = dict(enumerate(metadata.label_names))
    return load(
        AutoModelForSequenceClassification,
        pretrained,
        num_labels=len(names),
        id2label=names,
        label2id={name: at for at, name in names.items()},
        # If unset, the model infers it from its first batch, which adds a program to compile.
        problem_type="single_label_classification",
        # Models like GPT use it to find a row's last token.
        pad_token_id=metadata.pad_token_id,
    )


def targets(batch: Batch) -> Dict[str, np.ndarray]:
    """Return the class of each row."""
    return {"labels": np.array([row["label"] for row in batch.rows] + [IGNORED_LABEL] * batch.filler_rows)}


def reduce_predictions(predictions: Any, labels: Any) -> Any:
    """Return the logits unchanged."""
    return predictions


class Scorer:
    """Computes the scores for Trainer, and keeps the last evaluation's results for the tables."""

    def __init__(self, channel: Channel) -> None:
        self._label_names = list(channel.metadata.label_names)
        self._matrix: Optional[np.ndarray] = None
        file = channel.folder / SOURCE_ROWS
        self._source_rows: List[int] = json.loads(file.read_text("utf-8")) if file.exists() else []
        self._positions = np.argsort(channel.rows.numbers)[: len(self._source_rows)]
        """Positions of the channel's first rows in the order of evaluation."""
        self._first_rows: List[Dict[str, Any]] = []

    def __call__(self, prediction: Any) -> Dict[str, float]:
        logits = prediction.predictions[0] if isinstance(prediction.predictions, tuple) else prediction.predictions
        labels, names = prediction.label_ids, self._label_names
        self._matrix = confusion_matrix(labels, logits.argmax(axis=-1), len(names))
        self._first_rows = prediction_rows(self._source_rows, labels[self._positions], logits[self._positions], names)
        return summary(self._matrix)

    def tables(self) -> Dict[str, List[Dict[str, Any]]]:
        """Return the tables of the last evaluation, by file name."""
        if self._matrix is None:
            return {}
        return {
            "per_class.json": per_class_rows(self._matrix, self._label_names),
            "confusion_matrix.json": confusion_rows(self._matrix, self._label_names),
            **({"predictions.json": self._first_rows} if self._first_rows else {}),
        }


def confusion_matrix(actual: np.ndarray, predicted: np.ndarray, classes: int) -> np.ndarray:
    """Return counts, classes x classes: rows are the true class, columns the predicted one."""
    counts = np.bincount(actual * classes + predicted, minlength=classes * classes)
    return counts.reshape(classes, classes)


def class_scores(matrix: np.ndarray) -> Dict[str, np.ndarray]:
    """Return precision, recall, f1 and support of each class; a ratio without a denominator counts as 0."""
    right = np.diagonal(matrix).astype(float)
    support, predicted = matrix.sum(axis=1), matrix.sum(axis=0)
    return {
        "precision": _ratio(right, predicted),
        "recall": _ratio(right, support),
        "f1": _ratio(2 * right, support + predicted),
        "support": support,
    }


def summary(matrix: np.ndarray) -> Dict[str, float]:
    """Return accuracy, weighted F1, and macro means (over the classes that occur or are predicted, as scikit-learn)."""
    scores = class_scores(matrix)
    present = matrix.sum(axis=0) + matrix.sum(axis=1) > 0
    macro = {f"{name}_macro": float(scores[name][present].mean()) for name in ("precision", "recall", "f1")}
    weighted = float(np.average(scores["f1"], weights=scores["support"]))
    return {"accuracy": float(np.trace(matrix) / matrix.sum()), **macro, "f1_weighted": weighted}


def per_class_rows(matrix: np.ndarray, label_names: Sequence[str]) -> List[Dict[str, Any]]:
    """Return one row for each class."""
    scores = class_scores(matrix)
    return [
        {
            "label": label,
            "precision": float(scores["precision"][at]),
            "recall": float(scores["recall"][at]),
            "f1": float(scores["f1"][at]),
            "support": int(scores["support"][at]),
        }
        for at, label in enumerate(label_names)
    ]


def confusion_rows(matrix: np.ndarray, label_names: Sequence[str]) -> List[Dict[str, Any]]:
    """Return one row for each pair of classes that occurred. With many classes, most pairs never occur."""
    return [
        {"actual": label_names[actual], "predicted": label_names[predicted], "count": int(matrix[actual, predicted])}
        for actual, predicted in zip(*(numbers.tolist() for numbers in np.nonzero(matrix)))
    ]


def prediction_rows(
    source_rows: Sequence[int], labels: np.ndarray, logits: np.ndarray, label_names: Sequence[str]
) -> List[Dict[str, Any]]:
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
