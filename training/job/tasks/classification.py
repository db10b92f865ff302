"""Classification: one label for each text or pair of texts."""

import json
from typing import TYPE_CHECKING, Any, Dict, List, Mapping

from training.job.processes.reporting import BadData
from training.job.tasks.task import IGNORED_LABEL, LOSS, ColumnNames, Metric, Scorer, Task

if TYPE_CHECKING:
    import numpy as np

    from training.job.data.channels import Channel, ChannelMetadata
    from training.job.data.padding import Batch
    from training.job.weights.pretrained import Pretrained

SOURCE_ROWS = "source_rows.json"
"""File in the channel: a list with the row numbers, in the user's data, of the channel's first rows. The predictions
for these rows are reported."""


class Classification(Task):
    """One of several classes for each row, scored from a confusion matrix."""

    name = "classification"
    has_classes = True
    integer_columns = ("label",)
    head = "AutoModelForSequenceClassification"
    architectures = ("ForSequenceClassification",)
    metrics = (
        Metric("eval_accuracy", "accuracy", "fraction", higher_is_better=True, best=1.0),
        Metric("eval_f1_macro", "macro F1", "fraction", higher_is_better=True, best=1.0),
        LOSS,
    )
    optional_inputs = ("text_pair",)
    answer_fields = (("label", "string"), ("score", "double"))
    example: Mapping[str, str] = {**Task.example, "text_pair": "The days are getting shorter."}
    pipeline = "text-classification"

    def columns(self, names: ColumnNames) -> Dict[str, str]:
        """Return the columns with the text, the label and, for pairs, the second text."""
        pair = {names.text_pair: "string"} if names.text_pair else {}
        return {names.text: "string", names.label: "string or long", **pair}

    def check_channel(self, channel: "Channel") -> None:
        """Raise `BadData` if a row has a class without a name."""
        labels, classes = channel.rows.columns["label"], len(channel.metadata.label_names)
        [outside] = ((labels < 0) | (labels >= classes)).nonzero()
        if len(outside):
            at = outside[0]
            raise BadData(f"{channel.data_file}: row {at} has label {labels[at]}, but labels are 0 to {classes - 1}")

    def head_fields(self, pretrained: "Pretrained", metadata: "ChannelMetadata") -> Dict[str, Any]:
        """Return the labels and what the model needs to read a row."""
        names = dict(enumerate(metadata.label_names))
        return {
            "num_labels": len(names),
            "id2label": names,
            "label2id": {name: at for at, name in names.items()},
            # If unset, the model infers it from its first batch, which adds a program to compile.
            "problem_type": "single_label_classification",
            # Models like GPT use it to find a row's last token.
            "pad_token_id": metadata.pad_token_id,
        }

    def targets(self, batch: "Batch") -> "Dict[str, np.ndarray]":
        """Return the class of each row."""
        import numpy as np

        return {"labels": np.array([row["label"] for row in batch.rows] + [IGNORED_LABEL] * batch.filler_rows)}

    def scorer(self, channel: "Channel") -> Scorer:
        """Return the scorer of logits."""
        return ClassScorer(channel)


class ClassScorer:
    """Computes the scores for Trainer, and keeps the last evaluation's results for the tables."""

    def __init__(self, channel: "Channel") -> None:
        self._label_names = list(channel.metadata.label_names)
        file = channel.folder / SOURCE_ROWS
        self._source_rows: List[int] = json.loads(file.read_text("utf-8")) if file.exists() else []
        self._positions = channel.rows.numbers.argsort()[: len(self._source_rows)]
        """Positions of the channel's first rows in the order of evaluation."""
        self._tables: Dict[str, List[Dict[str, Any]]] = {}

    def __call__(self, prediction: Any) -> Dict[str, float]:
        from training.job.tasks import confusion

        logits = prediction.predictions[0] if isinstance(prediction.predictions, tuple) else prediction.predictions
        labels, names = prediction.label_ids, self._label_names
        matrix = confusion.confusion_matrix(labels, logits.argmax(axis=-1), len(names))
        first_rows = confusion.prediction_rows(
            self._source_rows, labels[self._positions], logits[self._positions], names
        )
        self._tables = {
            "per_class.json": confusion.per_class_rows(matrix, names),
            "confusion_matrix.json": confusion.confusion_rows(matrix, names),
            **({"predictions.json": first_rows} if first_rows else {}),
        }
        return confusion.summary(matrix)

    def tables(self) -> Dict[str, List[Dict[str, Any]]]:
        """Return the tables of the last evaluation, by file name."""
        return self._tables
