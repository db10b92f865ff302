"""Sequence classification: one label a row."""

from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from problems import ArgumentError
from tasks import scores


def load_model(location: str, revision: Optional[str], label_names: Sequence[str]) -> Any:
    """Return the pretrained model with a head for the labels, its weights in single precision.

    Raises `ArgumentError` when there is no such model.
    """
    from transformers import AutoModelForSequenceClassification

    names = dict(enumerate(label_names))
    source: Dict[str, Any] = {} if Path(location).is_dir() else {"revision": revision or "main"}
    try:
        model = AutoModelForSequenceClassification.from_pretrained(
            location,
            num_labels=len(names),
            id2label=names,
            label2id={name: at for at, name in names.items()},
            # Said here, or the model finds it out from its first batch, which would be one more program to compile.
            problem_type="single_label_classification",
            ignore_mismatched_sizes=True,
            **source,
        )
    except (OSError, ValueError) as error:
        raise ArgumentError(f"model {location!r} cannot be loaded: {str(error).strip().splitlines()[0]}") from error
    # Newer versions load weights in the precision they were saved in; optimizers need single precision.
    return model.float()


class Scorer:
    """Scores predictions for Trainer, and keeps the last confusion matrix for the tables."""

    def __init__(self, label_names: Sequence[str]) -> None:
        self._label_names = list(label_names)
        self._matrix: Optional[np.ndarray] = None

    def __call__(self, prediction: Any) -> Dict[str, float]:
        logits = prediction.predictions[0] if isinstance(prediction.predictions, tuple) else prediction.predictions
        self._matrix = scores.confusion_matrix(prediction.label_ids, logits.argmax(axis=-1), len(self._label_names))
        return scores.summary(self._matrix)

    def tables(self) -> Dict[str, List[Dict[str, Any]]]:
        """Return the tables of the last evaluation, by file name."""
        if self._matrix is None:
            return {}
        return {
            "per_class.json": scores.per_class_rows(self._matrix, self._label_names),
            "confusion_matrix.json": scores.confusion_rows(self._matrix, self._label_names),
        }
