"""The best answer span over a question's windows: by hand, and compared with an exhaustive search."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tasks.answer_spans import Places, best_spans


def places(*rows: tuple[int, int, int, int]) -> Places:
    """Return rows of (question, context_at, first_token, tokens)."""
    return Places(*np.array(rows, dtype=np.int64).reshape(-1, 4).T)


def logits(length: int, *rows: dict[int, float]) -> np.ndarray:
    """Return rows of -50, except at the listed positions."""
    result = np.full((len(rows), length), -50.0, dtype=np.float32)
    for line, row in zip(result, rows, strict=True):
        for at, value in row.items():
            line[at] = value
    return result


def test_the_best_window_wins_and_only_the_context_counts() -> None:
    # Two windows of question 0 hold tokens 0-3 and 2-5 of its context, after two other tokens. Question 1 has one
    # window.
    where = places((0, 2, 0, 4), (0, 2, 2, 4), (1, 1, 0, 3))
    # Position 0 (CLS) has the highest logits but is no answer. Position 6 is padding, or Trainer's filler.
    starts = logits(7, {0: 99, 3: 4}, {0: 99, 4: 5, 6: -100}, {1: 1, 6: 80})
    ends = logits(7, {0: 99, 5: 4}, {5: 5}, {3: 1, 6: 80})
    result = best_spans(starts, ends, where, questions=2, n_best=20, max_answer_length=30)
    # Window 2: positions 4 to 5 are tokens 2+2 to 2+3.
    assert result.tolist() == [[4, 5], [0, 2]]


def test_reversed_and_too_long_spans_are_no_answers() -> None:
    starts, ends = logits(6, {4: 9, 1: 5}), logits(6, {2: 9, 5: 8})
    where = places((0, 0, 0, 6))
    assert best_spans(starts, ends, where, 1, 20, 30).tolist() == [[4, 5]]
    starts, ends = logits(6, {0: 9, 1: 5}), logits(6, {5: 9, 2: 5})
    assert best_spans(starts, ends, where, 1, 20, 30).tolist() == [[0, 5]]
    # 0-5, 1-5 and 0-2 are longer than two tokens. Of the rest, 1-2 has the highest sum, 10.
    assert best_spans(starts, ends, where, 1, 20, 2).tolist() == [[1, 2]]


def test_only_the_best_starts_and_ends_are_paired() -> None:
    # The only start comes after the only end, so no span is left. A question without rows has none either.
    starts, ends = logits(4, {3: 9, 0: 8}), logits(4, {0: 9, 3: 8})
    assert best_spans(starts, ends, places((0, 0, 0, 4)), 2, n_best=1, max_answer_length=30).tolist() == [[-1, -1]] * 2


def test_nan_logits_are_no_answers() -> None:
    starts, ends = logits(3, {1: np.nan, 2: 1}), logits(3, {1: np.nan, 2: 1})
    assert best_spans(starts, ends, places((0, 0, 0, 3)), 1, 20, 30).tolist() == [[2, 2]]
    nothing = np.full((1, 3), np.nan)
    assert best_spans(nothing, nothing, places((0, 0, 0, 3)), 1, 20, 30).tolist() == [[-1, -1]]


@given(data=st.data(), rows=st.integers(1, 6), length=st.integers(2, 9), longest=st.integers(1, 9))
def test_the_best_span_matches_exhaustive_search(data: st.DataObject, rows: int, length: int, longest: int) -> None:
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    # All sums differ, so there is one best span.
    starts = random.permutation(rows * length).reshape(rows, length) * 1000.0
    ends = random.permutation(rows * length).reshape(rows, length) * 1.0
    at = random.integers(0, length - 1, rows)
    where = Places(random.integers(0, 3, rows), at, random.integers(0, 50, rows), random.integers(1, length - at + 1))
    expected = np.full((3, 2), -1)
    best = np.full(3, -np.inf)
    for row, (first, last) in product(range(rows), product(range(length), repeat=2)):
        inside = at[row] <= first <= last < at[row] + where.tokens[row] and last - first < longest
        total = starts[row, first] + ends[row, last]
        if inside and total > best[where.question[row]]:
            best[where.question[row]] = total
            shift = where.first_token[row] - at[row]
            expected[where.question[row]] = first + shift, last + shift
    result = best_spans(starts, ends, where, 3, n_best=length, max_answer_length=longest)
    assert result.tolist() == expected.tolist()
