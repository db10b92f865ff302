"""Sequence classification: one label for each row."""

import json
from typing import Any, Dict, List, Optional

import numpy as np

from data.channels import DATA, Channel, ChannelMetadata
from data.padding import IGNORED_LABEL, Batch
from reporting.errors import BadData
from tasks import classification_scores
from weights.pretrained import Pretrained, load

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


def _source_rows(channel: Channel) -> List[int]:
    file = channel.folder / SOURCE_ROWS
    return list(json.loads(file.read_text("utf-8"))) if file.exists() else []


class Scorer:
    """Computes the scores for Trainer, and keeps the last evaluation's results for the tables."""

    def __init__(self, channel: Channel) -> None:
        self._label_names = list(channel.metadata.label_names)
        self._matrix: Optional[np.ndarray] = None
        self._source_rows = _source_rows(channel)
        self._positions = np.argsort(channel.rows.numbers)[: len(self._source_rows)]
        """Positions of the channel's first rows in the order of evaluation."""
        self._first_rows: List[Dict[str, Any]] = []

    def __call__(self, prediction: Any) -> Dict[str, float]:
        logits = prediction.predictions[0] if isinstance(prediction.predictions, tuple) else prediction.predictions
        labels, names = prediction.label_ids, self._label_names
        self._matrix = classification_scores.confusion_matrix(labels, logits.argmax(axis=-1), len(names))
        self._first_rows = classification_scores.prediction_rows(
            self._source_rows, labels[self._positions], logits[self._positions], names
        )
        return classification_scores.summary(self._matrix)

    def tables(self) -> Dict[str, List[Dict[str, Any]]]:
        """Return the tables of the last evaluation, by file name."""
        if self._matrix is None:
            return {}
        return {
            "per_class.json": classification_scores.per_class_rows(self._matrix, self._label_names),
            "confusion_matrix.json": classification_scores.confusion_rows(self._matrix, self._label_names),
            **({"predictions.json": self._first_rows} if self._first_rows else {}),
        }
