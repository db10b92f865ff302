"""Regression: one number for each text or pair of texts."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from training.job.tasks.checks import checked_number
from training.job.tasks.encodings import numbers
from training.job.tasks.float_labels import FloatLabels
from training.job.tasks.inputs import EncodedInput, Rule
from training.job.tasks.task import LOSS, PEARSON, SPEARMAN, ColumnNames, LoadedModel, Metric, Row, Scorer

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

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
        return {names.label: "double"}

    def read(self, number: int, place: object, values: Sequence[Any], names: ColumnNames) -> Row:
        return Row(number, self.texts(place, values, names), detail=checked_number(place, names.label, values[1]))

    def encoded_labels(self, rows: Sequence[Row], classes: Sequence[Sequence[int]]) -> "dict[str, pa.Array]":
        return {"label": numbers([row.detail for row in rows])}

    def head_fields(self, pretrained: "Pretrained", metadata: "ChannelMetadata") -> dict[str, Any]:
        return {"num_labels": 1, "problem_type": self.problem_type, "pad_token_id": metadata.pad_token_id}

    def mean_logits(self, train: "Channel") -> "np.ndarray":
        import numpy as np

        return np.array([train.rows.columns["label"].mean()])

    def targets(self, batch: "Batch") -> "dict[str, np.ndarray]":
        import numpy as np

        return {"labels": np.array([row["label"] for row in batch.rows], np.float32)}

    def scorer(self, channel: "Channel") -> Scorer:
        from training.job.tasks.row_scores import NumberScorer

        return NumberScorer(channel)

    def answers(self, loaded: LoadedModel, encoded: Sequence[EncodedInput], outputs: Sequence[Any]) -> list[Any]:
        """Return `{"score"}`, the number, for each input."""
        return [{"score": float(output[0])} for output in outputs]
