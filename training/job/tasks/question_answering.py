"""Question answering: find the span of a context that answers a question.

A context that is longer than a row is divided into windows (`answer_spans.py`). Scores are SQuAD's (`squad.py`).
"""

from typing import TYPE_CHECKING, Any, Dict, Mapping

from training.job.processes.reporting import BadData
from training.job.tasks.task import LOSS, ColumnNames, Metric, Scorer, Task

if TYPE_CHECKING:
    import numpy as np

    from training.job.data.channels import Channel
    from training.job.data.padding import Batch

SQUAD_COLUMNS = ("id", "context", "question", "answers")
"""Columns of the Hub's `squad`."""


class QuestionAnswering(Task):
    """Answers that are spans of a context. A row of the data is a question, a row of the channel is a window."""

    name = "question-answering"
    row = "question"
    cut = "divided"
    options = ("doc_stride", "n_best_answers", "max_answer_length")
    scoring_options = options
    answering_options = ("max_length", *options)
    integer_columns = ("start_position", "end_position")
    head = "AutoModelForQuestionAnswering"
    architectures = ("ForQuestionAnswering",)
    label_inputs = ("start_positions", "end_positions")
    metrics = (
        Metric("eval_f1", "F1", "percent", higher_is_better=True, best=100.0, decimals=2),
        Metric("eval_exact_match", "exact match", "percent", higher_is_better=True, best=100.0, decimals=2),
        LOSS,
    )
    inputs = ("question", "context")
    answer_fields = (("answer", "string"), ("score", "double"), ("start", "long"), ("end", "long"))
    example: Mapping[str, str] = {"question": "What is coming?", "context": Task.example["text"]}
    pipeline = "question-answering"
    has_own_endpoint_code = True  # the toolkit's pipeline limits answers to 15 tokens

    def columns(self, names: ColumnNames) -> Dict[str, str]:
        """Return the columns of the Hub's `squad`, which all data for this task must have."""
        return {**dict.fromkeys(SQUAD_COLUMNS, "string"), "answers": "object"}

    def check_options(self, options: Any) -> None:
        """Raise ValueError if windows would not advance."""
        if options.doc_stride >= options.max_length:
            raise ValueError(
                f"doc_stride {options.doc_stride} must be smaller than max_length {options.max_length}: otherwise the "
                "windows do not advance"
            )

    def check_channel(self, channel: "Channel") -> None:
        """Raise `BadData` if a row's answer lies outside the row."""
        starts, ends = (channel.rows.columns[name] for name in self.integer_columns)
        [outside] = ((starts < 0) | (starts > ends) | (ends >= channel.rows.lengths)).nonzero()
        if len(outside):
            at = outside[0]
            raise BadData(
                f"{channel.data_file}: row {at} has start_position {starts[at]} and end_position {ends[at]}, "
                f"which is not a span of its tokens 0 to {channel.rows.lengths[at] - 1}"
            )

    def targets(self, batch: "Batch") -> "Dict[str, np.ndarray]":
        """Return the positions of the answers in the batch.

        Filler rows get a position past the end, which the models ignore in the loss.
        """
        import numpy as np

        return {
            label: np.array(
                [int(row[column]) + start for row, start in zip(batch.rows, batch.starts)]
                + [batch.length] * batch.filler_rows
            )
            for label, column in zip(self.label_inputs, self.integer_columns)
        }

    def scorer(self, channel: "Channel") -> Scorer:
        """Return the scorer of start logits and end logits."""
        from training.job.tasks.squad import AnswerScorer

        return AnswerScorer(channel)
