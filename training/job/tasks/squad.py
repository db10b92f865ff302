"""Score answers to questions as SQuAD does.

Exact match and F1 follow SQuAD's official script, version 1.1: `evaluate-v1.1.py` of
https://rajpurkar.github.io/SQuAD-explorer/ (Rajpurkar et al. 2016, arXiv:1606.05250). If some questions of the data
have no answer, they follow version 2.0, `evaluate-v2.0.py` (Rajpurkar et al. 2018, arXiv:1806.03822).
"""

import collections
import json
import re
import string
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from training.job.data.channels import METADATA, Channel, read_columns, read_texts
from training.job.tasks.answer_spans import (
    AnswerOptions,
    Offsets,
    Windows,
    best_of_windows,
    is_null,
    options_of,
    stripped,
)
from training.job.tasks.row_scores import cross_entropy
from training.job.tasks.task import COMMONEST, Row

START_POSITION = "start_position"
"""Column of the channel with the number of the answer's first token in its row."""
QUESTIONS = "questions.parquet"
WINDOWS = "windows.parquet"

ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)

MAX_TABLE_ROWS = 1_000
"""Most rows of the table of predictions. The scores include all questions."""


def scoring_tables(
    rows: Sequence[Row], offsets: Sequence[Offsets], windows: Sequence[Windows], first_question: int
) -> dict[str, dict[str, pa.Array]]:
    """Return the files that scoring reads: one row for each question, and one for each window.

    `offsets` are the characters of each context's tokens. Questions are numbered from `first_question`.
    """
    characters = pa.list_(pa.int32())
    spans = [np.array(each, dtype=np.int32).reshape(-1, 2) for each in offsets]
    questions = {
        "id": pa.array([row.id for row in rows], pa.string()),
        "context": pa.array([row.texts[0] for row in rows], pa.string()),
        "answers": pa.array([[answer.text for answer in row.detail] for row in rows], pa.list_(pa.string())),
        "token_starts": pa.array([each[:, 0] for each in spans], characters),
        "token_ends": pa.array([each[:, 1] for each in spans], characters),
    }
    numbered = [each._replace(question=each.question + first_question + at) for at, each in enumerate(windows)]
    joined = Windows(*(np.concatenate(values) for values in zip(*numbered)))
    columns = {name: pa.array(values, pa.int64()) for name, values in joined._asdict().items()}
    return {QUESTIONS: questions, WINDOWS: columns}


class AnswerScorer:
    """Computes the scores for Trainer, and keeps the last evaluation's answers for the table."""

    def __init__(self, channel: Channel) -> None:
        self._rows, file = channel.rows, channel.folder / QUESTIONS
        spans, _ = read_columns([file], ("token_starts", "token_ends"), ())
        self._ids, self._contexts, self._references = read_texts(file, ("id", "context", "answers"))
        metadata = json.loads((channel.folder / METADATA).read_text("utf-8"))
        recorded = {name: metadata[name] for name in ("n_best_answers", "max_answer_length")}
        self._has_answer = np.array([bool(each) for each in self._references])
        self._has_unanswerable = not self._has_answer.all()
        if self._has_unanswerable:
            recorded["null_threshold"] = metadata["null_threshold"]
            # Version 2 ignores answers of which nothing is left.
            self._references = [[each for each in own if normalised(each)] for own in self._references]
        self._options = options_of(recorded)
        # The CLS token is a row's first token, or its last one if rows are padded on the left (XLNet).
        self._cls = channel.rows.lengths - 1 if channel.metadata.padding_side == "left" else 0
        # Characters of each context's tokens: the first, and one past the last.
        self._starts, self._ends = (
            np.split(values, at[:-1]) for values, at in (spans["token_starts"], spans["token_ends"])
        )
        _, columns = read_columns([channel.folder / WINDOWS], (), Windows._fields)
        self._windows = Windows(*(columns[name][channel.rows.numbers] for name in Windows._fields))
        """Position of the context in each row of the channel."""
        self._answer_rows: list[dict[str, Any]] = []
        self._answers: list[str] = []

    def __call__(self, prediction: Any) -> dict[str, float]:
        # Some models return more than start logits and end logits.
        start_logits, end_logits = prediction.predictions[:2]
        # Padding on the left moves a row's tokens as far as its labels.
        shift = prediction.label_ids[0] - self._rows.columns[START_POSITION]
        windows = self._windows._replace(context_at=self._windows.context_at + shift)
        spans = best_spans(start_logits, end_logits, windows, len(self._ids), self._options, self._cls + shift)
        answers = self._answers = [self._text(at, first, last) for at, (first, last) in enumerate(spans.tolist())]
        scores = [scores_of(*pair) for pair in zip(answers, self._references)]
        self._answer_rows = [
            {"id": name, "prediction": answer, "references": references, "exact_match": score[0], "f1": score[1]}
            for name, answer, references, score in zip(self._ids[:MAX_TABLE_ROWS], answers, self._references, scores)
        ]
        losses = [cross_entropy(*pair) for pair in zip((start_logits, end_logits), prediction.label_ids)]
        return {
            "loss": sum(losses) / 2,
            **_means(scores, "exact_match"),
            **(self._unanswerable_scores(scores) if self._has_unanswerable else {}),
        }

    def _unanswerable_scores(self, scores: Sequence[tuple[float, float]]) -> dict[str, float]:
        """Return the scores of the questions with and without an answer, and of always answering nothing."""
        nothing = _means([scores_of("", references) for references in self._references], "exact_match")
        parts = {"HasAns_": self._has_answer, "NoAns_": ~self._has_answer}
        return {
            **{f"{name}{COMMONEST}": score for name, score in nothing.items()},
            **{
                f"{part}{name}": score
                for part, is_in in parts.items()
                if is_in.any()
                for name, score in _means(np.array(scores)[is_in], "exact").items()
            },
        }

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        return {"predictions.json": self._answer_rows} if self._answer_rows else {}

    def rows(self) -> list[dict[str, Any]]:
        """Return each question's `id`, its answers in `reference`, a list, and the predicted answer."""
        columns = (self._ids, self._references, self._answers)
        evaluated = np.unique(self._windows.question).tolist()  # a sample of the rows has only some of the questions
        return [dict(zip(("id", "reference", "prediction"), [each[at] for each in columns])) for at in evaluated]

    def _text(self, question: int, first: int, last: int) -> str:
        """Return the text from one token of a question's context to another; empty if `first` is -1."""
        if first < 0:
            return ""
        start, end = self._starts[question][first], self._ends[question][last]
        return stripped(self._contexts[question], int(start), int(end))[0]


def _means(scores: Any, exact: str) -> dict[str, float]:
    """Return the means of scores, questions x 2, by name. `exact` is the name of the first one."""
    return dict(zip((exact, "f1"), np.mean(scores, axis=0).tolist()))


def best_spans(
    start_logits: np.ndarray,
    end_logits: np.ndarray,
    windows: Windows,
    questions: int,
    options: AnswerOptions,
    cls: Any = 0,
) -> np.ndarray:
    """Return the token indices of the first and last token of each question's best answer, questions x 2.

    Indices count from the start of the context. Logits are windows x positions, and `cls` is the position of the CLS
    token in each window. Both indices are -1 for the empty answer, and without a possible span.
    """
    spans, sums = best_of_windows(start_logits, end_logits, windows, options, 1)
    best = np.full((questions, 2), -1, dtype=np.int64)
    # Ascending, so that the best is written last. Of equal sums, which are common in 16 bits, the window that comes
    # first in the context is written last, whatever the order of the rows.
    order = np.lexsort((-windows.first_token, sums[:, 0]))
    order = order[np.isfinite(sums[order, 0])]
    best[windows.question[order]] = spans[order, 0]
    if options.null_threshold is not None:
        rows = np.arange(len(start_logits))
        empty, most = np.full(questions, np.inf), np.full(questions, -np.inf)
        np.minimum.at(empty, windows.question, start_logits[rows, cls].astype(float) + end_logits[rows, cls])
        np.maximum.at(most, windows.question, sums[:, 0])
        best[is_null(empty, most, options)] = -1
    return best


def normalised(answer: str) -> str:
    """Return an answer in lower case, without ASCII punctuation, articles or repeated blanks."""
    return " ".join(ARTICLES.sub(" ", answer.lower().translate(PUNCTUATION)).split())


def f1(prediction: str, reference: str) -> float:
    """Return the F1 in percent of the normalised answers' words; 0 if they share no word."""
    predicted, expected = normalised(prediction).split(), normalised(reference).split()
    shared = sum((collections.Counter(predicted) & collections.Counter(expected)).values())
    return 200.0 * shared / (len(predicted) + len(expected)) if shared else 0.0


def scores_of(prediction: str, references: Sequence[str]) -> tuple[float, float]:
    """Return (exact match, F1) in percent, each the best over the references.

    A question without references has no answer. For it, as in version 2 of SQuAD, an empty prediction is right.
    """
    if not references:
        score = 0.0 if normalised(prediction) else 100.0
        return score, score
    exact = 100.0 * any(normalised(prediction) == normalised(each) for each in references)
    return exact, max(f1(prediction, each) for each in references)
