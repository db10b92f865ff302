"""Classification: one label for each text or pair of texts."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from training.job.processes.reporting import BadData
from training.job.tasks.checks import checked_label, checked_text, from_json
from training.job.tasks.encodings import cut_rows, encodings, integers, takes_types, token_columns
from training.job.tasks.inputs import EncodedInput, Rule, TokenRow, rule, whole_number
from training.job.tasks.task import LOSS, ColumnNames, Encoded, Encoder, LoadedModel, Metric, Row, Scorer, Task

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from training.job.data.channels import Channel, ChannelMetadata
    from training.job.data.padding import Batch
    from training.job.weights.pretrained import Pretrained


FUNCTIONS = ("softmax", "sigmoid", "none")
"""Functions that turn logits into scores."""


class Classification(Task):
    """One of several classes for each row, scored from a confusion matrix."""

    name = "classification"
    other_names: tuple[str, ...] = ("sentiment-analysis", "sequence-classification")
    classes = "one"
    reports_first_rows = True
    integer_columns: tuple[str, ...] = ("label",)
    head = "AutoModelForSequenceClassification"
    architectures = ("ForSequenceClassification",)
    problem_type = "single_label_classification"
    metrics: tuple[Metric, ...] = (
        Metric("eval_accuracy", "accuracy", "fraction", higher_is_better=True, best=1.0),
        Metric("eval_f1_macro", "macro F1", "fraction", higher_is_better=True, best=1.0),
        LOSS,
    )
    optional_inputs = ("text_pair",)
    answer_fields: tuple[tuple[str, str], ...] = (("label", "string"), ("score", "double"))
    example: Mapping[str, str] = {**Task.example, "text_pair": "The days are getting shorter."}
    accepts_blanks = True
    # With `top_k`, the answer is a list of that many labels, the likeliest first. If null, the list has all labels.
    parameter_rules: Mapping[str, Rule] = {
        "top_k": lambda name, value: value if value is None else whole_number(1, 100_000)(name, value),
        "function_to_apply": rule(lambda value: value in FUNCTIONS, f"one of {', '.join(FUNCTIONS)}"),
    }
    pipeline = "text-classification"

    def columns(self, names: ColumnNames) -> dict[str, str]:
        pair = {names.text_pair: "string"} if names.text_pair else {}
        return {names.text: "string", **self.label_columns(names), **pair}

    def label_columns(self, names: ColumnNames) -> dict[str, str]:
        """Return the columns with the labels."""
        return {names.label: "string or long"}

    def read(self, number: int, place: object, values: Sequence[Any], names: ColumnNames) -> Row:
        texts = self.texts(place, values, names)
        if isinstance(from_json(values[1]), list):
            several = "for several labels a row, set task: multi-label-classification"
            raise BadData(f"{place}: column {names.label!r} is a list; {several}")
        return Row(number, texts, (checked_label(place, names.label, values[1]),))

    def texts(self, place: object, values: Sequence[Any], names: ColumnNames) -> tuple[str, ...]:
        """Check the texts of a row and return them: the second is the last value."""
        pair = (checked_text(place, names.text_pair, values[-1]),) if names.text_pair else ()
        return (checked_text(place, names.text, values[0]), *pair)

    def encoder(self, tokenizer: Any, options: Mapping[str, Any], for_scoring: bool) -> Encoder:
        """Encode a text or a pair of texts, and its labels."""

        def encode(rows: Sequence[Row], classes: Sequence[Sequence[int]]) -> Encoded:
            pairs = [row.texts[1] for row in rows] if len(rows[0].texts) > 1 else None
            encoded = encodings(tokenizer, [row.texts[0] for row in rows], pairs, options["max_length"])
            has_types = pairs is not None and takes_types(tokenizer)
            types = [each.type_ids for each in encoded] if has_types else None
            columns = token_columns([each.ids for each in encoded], types)
            return Encoded({**columns, **self.encoded_labels(rows, classes)}, cut_rows(encoded))

        return encode

    def encoded_labels(self, rows: Sequence[Row], classes: Sequence[Sequence[int]]) -> "dict[str, pa.Array]":
        """Return the columns of the channel with the labels of rows."""
        return {"label": integers([number for [number] in classes])}

    def head_fields(self, pretrained: "Pretrained", metadata: "ChannelMetadata") -> dict[str, Any]:
        names = dict(enumerate(metadata.label_names))
        return {
            "num_labels": len(names),
            "id2label": names,
            "label2id": {name: at for at, name in names.items()},
            # If unset, the model infers it from its first batch, which adds a program to compile.
            "problem_type": self.problem_type,
            # Models like GPT use it to find a row's last token.
            "pad_token_id": metadata.pad_token_id,
        }

    def targets(self, batch: "Batch") -> "dict[str, np.ndarray]":
        import numpy as np

        return {"labels": np.array([row["label"] for row in batch.rows])}

    def scorer(self, channel: "Channel") -> Scorer:
        from training.job.tasks.row_scores import ClassScorer

        return ClassScorer(channel)

    def encode_may_refuse(self, loaded: LoadedModel) -> bool:
        """Return whether an empty text has no tokens at all."""
        return not loaded.adds_special_tokens

    def outputs(self, loaded: LoadedModel, rows: Sequence[TokenRow]) -> list[Any]:
        return list(loaded.forward(rows).logits.float())

    def answers(self, loaded: LoadedModel, encoded: Sequence[EncodedInput], outputs: Sequence[Any]) -> list[Any]:
        """Return `{"label", "score"}` for each input, or a list of them with `top_k`: see `transformers.pipeline`."""
        import torch

        # In 64 bits, like the evaluation (`confusion.prediction_rows`): in 32, the seventh digit would differ.
        logits, config = torch.stack(list(outputs)).double(), loaded.model.config
        scores = {
            "softmax": torch.softmax(logits, dim=-1).tolist(),
            "sigmoid": torch.sigmoid(logits).tolist(),
            "none": logits.tolist(),
        }
        chosen = [each.example.options.get("function_to_apply") or _function(config) for each in encoded]
        return [
            _answer(scores[function][at], config.id2label, each.example.options)
            for at, (each, function) in enumerate(zip(encoded, chosen))
        ]


def _function(config: Any) -> str:
    """Return the function that turns logits into scores. Transformers' pipeline uses the same rule."""
    if config.problem_type == "regression":
        return "none"
    if config.problem_type == "multi_label_classification" or config.num_labels == 1:
        return "sigmoid"
    return "softmax"


def _answer(scores: list[float], names: Mapping[int, str], options: Mapping[str, Any]) -> Any:
    if "top_k" not in options:
        best = max(range(len(scores)), key=scores.__getitem__)
        return {"label": names[best], "score": scores[best]}
    order = sorted(range(len(scores)), key=scores.__getitem__, reverse=True)
    return [{"label": names[at], "score": scores[at]} for at in order[: options["top_k"]]]
