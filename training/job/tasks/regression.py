"""Regression: one number for each text or pair of texts."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from training.job.tasks.checks import checked_number
from training.job.tasks.correlation import PEARSON, SPEARMAN, pearson, spearman
from training.job.tasks.encodings import numbers
from training.job.tasks.float_labels import FILLER, FloatLabels
from training.job.tasks.inputs import EncodedInput, Rule
from training.job.tasks.task import COMMONEST, LOSS, ColumnNames, LoadedModel, Metric, Row, Scorer

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from torch import Tensor

    from training.job.data.channels import Channel, ChannelMetadata
    from training.job.data.padding import Batch
    from training.job.weights.pretrained import Pretrained


class Regression(FloatLabels):
    """A number for each row, scored by correlations and errors."""

    name = "regression"
    other_names = ("text-regression", "text-scoring", "sts")
    classes = "none"
    problem_type = "regression"
    number_columns = ("label",)
    metrics = (SPEARMAN, PEARSON, LOSS, Metric("eval_rmse", "RMSE"), Metric("eval_mae", "mean absolute error"))
    answer_fields = (("score", "double"),)
    parameter_rules: Mapping[str, Rule] = {}

    def label_columns(self, names: ColumnNames) -> dict[str, str]:
        """Return the column with the number."""
        return {names.label: "double"}

    def read(self, number: int, place: object, values: Sequence[Any], names: ColumnNames) -> Row:
        """Check the texts and the number."""
        return Row(number, self.texts(place, values, names), detail=checked_number(place, names.label, values[1]))

    def encoded_labels(self, rows: Sequence[Row], classes: Sequence[Sequence[int]]) -> "dict[str, pa.Array]":
        """Return the column of numbers."""
        return {"label": numbers([row.detail for row in rows])}

    def head_fields(self, pretrained: "Pretrained", metadata: "ChannelMetadata") -> dict[str, Any]:
        """Return the fields for one output."""
        return {"num_labels": 1, "problem_type": self.problem_type, "pad_token_id": metadata.pad_token_id}

    def mean_logits(self, train: "Channel") -> "np.ndarray":
        """Return the mean number."""
        import numpy as np

        return np.array([train.rows.columns["label"].mean()])

    def targets(self, batch: "Batch") -> "dict[str, np.ndarray]":
        """Return the number of each row."""
        import numpy as np

        labels = [row["label"] for row in batch.rows] + [FILLER] * batch.filler_rows
        return {"labels": np.array(labels, np.float32)}

    def losses(self, logits: "Tensor", labels: "Tensor") -> "Tensor":
        """Return the squared error of each row."""
        return (logits.squeeze(-1) - labels) ** 2

    def scorer(self, channel: "Channel") -> Scorer:
        """Return the scorer of predicted numbers."""
        return NumberScorer(channel)

    def answers(self, loaded: LoadedModel, encoded: Sequence[EncodedInput], outputs: Sequence[Any]) -> list[Any]:
        """Return `{"score"}`, the number, for each input."""
        return [{"score": float(output[0])} for output in outputs]


class NumberScorer:
    """Computes the scores for Trainer, and keeps the last evaluation for the table."""

    def __init__(self, channel: "Channel") -> None:
        from training.job.tasks.confusion import DataOrder

        self._order = DataOrder(channel)
        self._numbers: Sequence[np.ndarray] = ()
        """The last evaluation's actual and predicted numbers, in the order of evaluation."""

    def __call__(self, prediction: Any) -> dict[str, float]:
        logits = prediction.predictions[0] if isinstance(prediction.predictions, tuple) else prediction.predictions
        actual, predicted = (values.reshape(-1).astype("float64") for values in (prediction.label_ids, logits))
        self._numbers = (actual, predicted)
        return number_scores(actual, predicted)

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Return the table of the first rows, by file name."""
        columns = [self._order.first(values).tolist() for values in self._numbers]
        rows = [
            # NaN if the model diverged, which JSON cannot represent.
            {"row": row, "label": actual, "prediction": predicted if math.isfinite(predicted) else None}
            for row, actual, predicted in zip(self._order.first_rows, *columns)
        ]
        return {"predictions.json": rows} if columns and rows else {}

    def rows(self) -> list[dict[str, Any]]:
        """Return each row's number and the predicted one."""
        pairs = zip(*(self._order.all(values).tolist() for values in self._numbers))
        return [{"reference": actual, "prediction": predicted} for actual, predicted in pairs]


def number_scores(actual: "np.ndarray", predicted: "np.ndarray") -> dict[str, float]:
    """Return correlations and errors, and the same of always answering the mean. Its correlations are 0."""
    errors, of_mean = predicted - actual, actual - actual.mean()
    return {
        "spearman": spearman(predicted, actual),
        "pearson": pearson(predicted, actual),
        "rmse": float((errors**2).mean()) ** 0.5,
        "mae": float(abs(errors).mean()),
        f"spearman{COMMONEST}": 0.0,
        f"pearson{COMMONEST}": 0.0,
        f"rmse{COMMONEST}": float((of_mean**2).mean()) ** 0.5,
        f"mae{COMMONEST}": float(abs(of_mean).mean()),
    }
