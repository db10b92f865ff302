"""Question answering: find the span of a context that answers a question, and score it as SQuAD does."""

from typing import Any, Dict, List

import numpy as np

from data.channels import DATA, Channel, ChannelMetadata
from data.padding import Batch
from reporting.errors import BadData
from tasks import squad_scores
from tasks.answer_spans import AnswerOptions, Windows, best_of_windows
from tasks.questions import read_questions
from weights.pretrained import Pretrained, load

COLUMNS = ("start_position", "end_position")
LABELS = ("start_positions", "end_positions")

MAX_TABLE_ROWS = 1_000
"""Most rows of the table of predictions. The scores include all questions."""


def check(channel: Channel) -> None:
    """Raise `BadData` if a row's answer lies outside the row."""
    starts, ends = (channel.rows.columns[name] for name in COLUMNS)
    outside = np.flatnonzero((starts < 0) | (starts > ends) | (ends >= channel.rows.lengths))
    if len(outside):
        at = outside[0]
        raise BadData(
            f"{channel.folder / DATA}: row {at} has start_position {starts[at]} and end_position {ends[at]}, "
            f"which is not a span of its tokens 0 to {channel.rows.lengths[at] - 1}"
        )


def load_model(pretrained: Pretrained, metadata: ChannelMetadata) -> Any:
    """Return the model with a head for the start and end of the answer."""
    from transformers import AutoModelForQuestionAnswering

    return load(AutoModelForQuestionAnswering, pretrained)


def targets(batch: Batch) -> Dict[str, np.ndarray]:
    """Return the positions of the answers in the batch.

    Filler rows get a position past the end, which the models ignore in the loss.
    """
    return {
        label: np.array(
            [int(row[column]) + start for row, start in zip(batch.rows, batch.starts)]
            + [batch.length] * batch.filler_rows
        )
        for label, column in zip(LABELS, COLUMNS)
    }


def reduce_predictions(predictions: Any, labels: Any) -> Any:
    """Return the logits unchanged."""
    return predictions


class Scorer:
    """Computes the scores for Trainer, and keeps the last evaluation's answers for the table."""

    def __init__(self, channel: Channel) -> None:
        self._rows = channel.rows
        self._questions = read_questions(channel)
        self._answer_rows: List[Dict[str, Any]] = []

    def __call__(self, prediction: Any) -> Dict[str, float]:
        # Some models return more than start logits and end logits.
        start_logits, end_logits = prediction.predictions[:2]
        # Padding on the left moves a row's tokens as far as its labels.
        shift = prediction.label_ids[0] - self._rows.columns[COLUMNS[0]]
        answers = self._answers(start_logits, end_logits, shift)
        scores = [squad_scores.scores(*pair) for pair in zip(answers, self._questions.references)]
        exact_match, f1 = np.mean(scores, axis=0)
        columns = (self._questions.ids, answers, self._questions.references, scores)
        self._answer_rows = [
            {"id": name, "prediction": answer, "references": references, "exact_match": score[0], "f1": score[1]}
            for name, answer, references, score in list(zip(*columns))[:MAX_TABLE_ROWS]
        ]
        return {"exact_match": float(exact_match), "f1": float(f1)}

    def tables(self) -> Dict[str, List[Dict[str, Any]]]:
        """Return the table of the last evaluation, by file name."""
        return {"predictions.json": self._answer_rows} if self._answer_rows else {}

    def _answers(self, start_logits: np.ndarray, end_logits: np.ndarray, shift: np.ndarray) -> List[str]:
        questions = self._questions
        windows = questions.windows._replace(context_at=questions.windows.context_at + shift)
        spans = best_spans(start_logits, end_logits, windows, len(questions.ids), questions.options)
        return [questions.text(at, first, last) for at, (first, last) in enumerate(spans.tolist())]


def best_spans(
    start_logits: np.ndarray, end_logits: np.ndarray, windows: Windows, questions: int, options: AnswerOptions
) -> np.ndarray:
    """Return the token indices of the first and last token of each question's best answer, questions x 2.

    Indices count from the start of the context. Logits are windows x positions. Both are -1 without a possible span.
    """
    spans, sums = best_of_windows(start_logits, end_logits, windows, options, 1)
    best = np.full((questions, 2), -1, dtype=np.int64)
    # Ascending, so that the best is written last. Of equal sums, which are common in 16 bits, that of the window that
    # comes first in the context is written last, whatever the order of the rows.
    order = np.lexsort((-windows.first_token, sums[:, 0]))
    order = order[np.isfinite(sums[order, 0])]
    best[windows.question[order]] = spans[order, 0]
    return best
