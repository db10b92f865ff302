"""Classification with several labels: any number of labels for each text or pair of texts."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from training.job.processes.reporting import BadData
from training.job.tasks.checks import checked_label, checked_list, short_text
from training.job.tasks.classification import Classification
from training.job.tasks.float_labels import FloatLabels
from training.job.tasks.inputs import EncodedInput, Rule, number, rule
from training.job.tasks.task import LOSS, ColumnNames, Label, LoadedModel, Metric, Option, Row, Scorer

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from training.job.data.channels import Channel
    from training.job.data.padding import Batch

DEFAULT_THRESHOLD = 0.5
HAS_LABEL = {**dict.fromkeys(("1", "1.0", "true"), True), **dict.fromkeys(("0", "0.0", "false"), False)}
"""Values of a column that stands for one label, as text in lower case."""


class MultiLabelClassification(FloatLabels):
    """Any number of labels for each row: those whose probability is above the threshold."""

    name = "multi-label-classification"
    other_names = ("multi-label", "multilabel", "multi-label-text-classification")
    classes = "many"
    problem_type = "multi_label_classification"
    list_columns = ("labels",)
    usual_columns: Mapping[tuple[str, ...], str] = {
        ("labels",): "data.columns.label: labels, and, if they are lists, task: multi-label-classification"
    }
    options: Mapping[str, Option] = {
        **FloatLabels.options,
        "threshold": Option(
            float,
            DEFAULT_THRESHOLD,
            "Several labels: probability above which a label is an answer (None: 0.5). F1 is usually highest at half "
            "the F1 that a model reaches (Lipton et al. 2014, https://arxiv.org/abs/1402.1892).",
            {"gt": 0.0, "lt": 1.0},
            requires_task=True,
        ),
    }
    scoring_options = ("threshold",)
    answering_options = ("threshold",)
    metrics: tuple[Metric, ...] = (
        Metric("eval_f1_micro", "micro F1", "fraction", higher_is_better=True, best=1.0),
        Metric("eval_f1_macro", "macro F1", "fraction", higher_is_better=True, best=1.0),
        Metric("eval_exact_labels", "rows with exactly their labels", "fraction", higher_is_better=True, best=1.0),
        LOSS,
    )
    answer_fields = (("labels", "string[]"), ("scores", "double[]"))
    # With `top_k`, an answer has that many labels, whatever the threshold. If null, it has all.
    parameter_rules: Mapping[str, Rule] = {
        "threshold": number(1.0),
        "top_k": Classification.parameter_rules["top_k"],
        "function_to_apply": rule(lambda value: value in ("sigmoid", "none"), "sigmoid or none"),
    }

    def label_columns(self, names: ColumnNames) -> dict[str, str]:
        return dict.fromkeys(names.labels, "boolean") if names.labels else {names.label: "object"}

    def read(self, number: int, place: object, values: Sequence[Any], names: ColumnNames) -> Row:
        """Check the texts and the labels. A row may have no label."""
        texts = self.texts(place, values, names)
        if not names.labels:
            return Row(number, texts, _listed_labels(place, names.label, values[1]))
        set_labels = [name for name, value in zip(names.labels, values[1:]) if _has_label(place, name, value)]
        return Row(number, texts, tuple(set_labels))

    def encoded_labels(self, rows: Sequence[Row], classes: Sequence[Sequence[int]]) -> "dict[str, pa.Array]":
        import pyarrow as pa

        # A label map may give several labels of a row the same class.
        return {"labels": pa.array([sorted(set(numbers)) for numbers in classes], pa.list_(pa.int32()))}

    def mean_logits(self, train: "Channel") -> "np.ndarray":
        """Return the log-odds of each class, with half a row more on both sides: a class may have no row, or all."""
        import numpy as np

        counts = np.bincount(train.rows.columns["labels"].joined(), minlength=len(train.metadata.label_names)) + 0.5
        return np.asarray(np.log(counts / (len(train.rows) + 1 - counts)))

    def targets(self, batch: "Batch") -> "dict[str, np.ndarray]":
        """Return 1 for each class of each row and 0 for the others, rows x classes."""
        import numpy as np

        labels = np.zeros((len(batch.rows), batch.classes), np.float32)
        for line, row in zip(labels, batch.rows):
            line[row["labels"]] = 1
        return {"labels": labels}

    def scorer(self, channel: "Channel") -> Scorer:
        from training.job.tasks.row_scores import LabelScorer

        return LabelScorer(channel)

    def answers(self, loaded: LoadedModel, encoded: Sequence[EncodedInput], outputs: Sequence[Any]) -> list[Any]:
        """Return `{"labels", "scores"}` for each input: the labels above the threshold, the likeliest first."""
        from training.job.tasks.row_scores import above

        made, names = [], loaded.model.config.id2label
        for each, output in zip(encoded, outputs):
            options, logits = each.example.options, output.double()
            threshold = options.get("threshold") or loaded.options.get("threshold") or DEFAULT_THRESHOLD
            scores = logits if options.get("function_to_apply") == "none" else logits.sigmoid()
            if "top_k" in options:
                order = logits.argsort(descending=True, stable=True).tolist()[: options["top_k"]]
            else:
                order = above(logits.tolist(), threshold)
            made.append({"labels": [names[at] for at in order], "scores": [float(scores[at]) for at in order]})
        return made


def _listed_labels(place: object, column: str, value: Any) -> tuple[Label, ...]:
    """Check a list of labels, and return them. Raises `BadData`."""
    values = checked_list(place, column, value)
    if len(values) > 2 and all(each in (0, 1) for each in values):  # As labels, one would occur twice.
        return tuple(at for at, each in enumerate(values) if each)
    labels = tuple(checked_label(place, column, each) for each in values)
    for at, label in enumerate(labels):
        if label in labels[:at]:
            raise BadData(
                f"{place}: column {column!r} has the label {short_text(label)} twice. A list has the labels of its "
                "row; for a 0 or 1 a label, name one column a label in data.columns.labels"
            )
    return labels


def _has_label(place: object, column: str, value: Any) -> bool:
    """Return whether a row has the label of a column. Raises `BadData`."""
    has_label = HAS_LABEL.get(str(value).strip().lower())
    if has_label is None:
        raise BadData(f"{place}: column {column!r} is {short_text(value)}: it must be 0 or 1, or true or false")
    return has_label
