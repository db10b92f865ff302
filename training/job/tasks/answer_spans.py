"""The best span of each question over all its windows, with NumPy alone. Pure.

As in Hugging Face's `run_qa.py`: of the `n_best` likeliest starts and ends of a window, the pair with the highest sum
of logits that stands in the context, does not end before it starts and is not too long.
"""

from typing import NamedTuple

import numpy as np

ROWS_AT_A_TIME = 1_000
"""Bounds the memory: 20 x 20 pairs of each row are held at once."""


class Places(NamedTuple):
    """Where the context stands in each row of logits; arrays of one number a row."""

    question: np.ndarray
    """Number of the row's question, from 0."""
    context_at: np.ndarray
    """Position of the first token of the context."""
    first_token: np.ndarray
    """Which token of the question's whole context that is."""
    tokens: np.ndarray
    """Tokens of the context in the row; everything else (question, padding, filling of shorter batches) is left out."""


def best_spans(
    start_logits: np.ndarray,
    end_logits: np.ndarray,
    places: Places,
    questions: int,
    n_best: int,
    max_answer_length: int,
) -> np.ndarray:
    """Return the first and last token of each question's answer within its whole context: questions x 2.

    Logits are rows x positions; `max_answer_length` counts tokens. A question without a span has -1.
    """
    spans, scores = [], []
    for start in range(0, len(start_logits), ROWS_AT_A_TIME):
        cut = slice(start, start + ROWS_AT_A_TIME)
        part = Places(*(values[cut] for values in places))
        starts, ends = _in_context(start_logits[cut], part), _in_context(end_logits[cut], part)
        span, score = _best_of_rows(starts, ends, n_best, max_answer_length)
        spans.append(span + part.first_token[:, None])
        scores.append(score)
    return _best_of_questions(np.concatenate(spans), np.concatenate(scores), places.question, questions)


def _in_context(logits: np.ndarray, places: Places) -> np.ndarray:
    """Return the logits of the context alone, rows x most tokens; -inf where a row has fewer, or holds no number."""
    width = int(places.tokens.max())
    position = np.arange(width)
    columns = np.minimum(places.context_at[:, None] + position, logits.shape[1] - 1)
    found = np.take_along_axis(logits.astype(np.float64), columns, axis=1)
    found[(position >= places.tokens[:, None]) | ~np.isfinite(found)] = -np.inf
    return found


def _best_of_rows(
    starts: np.ndarray, ends: np.ndarray, n_best: int, max_length: int
) -> "tuple[np.ndarray, np.ndarray]":
    """Return the best (first, last) of each row, and the sum of its logits, -inf where none is possible."""
    rows = np.arange(len(starts))
    first, last = _likeliest(starts, n_best), _likeliest(ends, n_best)
    length = last[:, None, :] - first[:, :, None] + 1
    sums = starts[rows[:, None], first][:, :, None] + ends[rows[:, None], last][:, None, :]
    sums[(length < 1) | (length > max_length)] = -np.inf
    flat = sums.reshape(len(rows), -1)
    chosen = flat.argmax(axis=1)
    span = np.stack([first[rows, chosen // last.shape[1]], last[rows, chosen % last.shape[1]]], axis=1)
    return span, flat[rows, chosen]


def _likeliest(logits: np.ndarray, count: int) -> np.ndarray:
    """Return the columns of the `count` highest logits of each row, the highest first, the leftmost of equals."""
    return np.argsort(-logits, axis=1, kind="stable")[:, :count]


def _best_of_questions(spans: np.ndarray, scores: np.ndarray, question: np.ndarray, questions: int) -> np.ndarray:
    best = np.full((questions, 2), -1, dtype=np.int64)
    # Ascending, so that the last written, the best, stays; of equals the first row.
    order = np.lexsort((-np.arange(len(scores)), scores))
    order = order[np.isfinite(scores[order])]
    best[question[order]] = spans[order]
    return best
