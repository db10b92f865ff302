"""A question's best span over its windows, worked out by hand and by a search through all pairs."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.job.tasks.answer_spans import AnswerOptions, Windows, answers_of, options_of, read_options, stripped
from training.job.tasks.squad import best_spans


def windows_of(*rows: tuple[int, int, int, int]) -> Windows:
    """Return windows from tuples of question, context_at, first_token and tokens."""
    return Windows(*np.array(rows, dtype=np.int64).reshape(-1, 4).T)


def logits(length: int, *rows: dict[int, float]) -> np.ndarray:
    """Return rows of -50, except at the given positions."""
    result = np.full((len(rows), length), -50.0, dtype=np.float32)
    for line, row in zip(result, rows, strict=True):
        for at, value in row.items():
            line[at] = value
    return result


def test_the_best_window_wins_and_only_the_context_counts() -> None:
    # Two windows of question 0 contain tokens 0-3 and 2-5 of its context after two other tokens. Question 1 has one
    # window.
    windows = windows_of((0, 2, 0, 4), (0, 2, 2, 4), (1, 1, 0, 3))
    # Position 0 (CLS) has the highest logits but cannot be an answer. Position 6 is padding.
    starts = logits(7, {0: 99, 3: 4}, {0: 99, 4: 5, 6: -100}, {1: 1, 6: 80})
    ends = logits(7, {0: 99, 5: 4}, {5: 5}, {3: 1, 6: 80})
    result = best_spans(starts, ends, windows, 2, AnswerOptions())
    # In the second window, positions 4 to 5 are tokens 2+2 to 2+3.
    assert result.tolist() == [[4, 5], [0, 2]]


def test_spans_that_end_before_they_start_or_are_too_long_are_excluded() -> None:
    starts, ends = logits(6, {4: 9, 1: 5}), logits(6, {2: 9, 5: 8})
    windows = windows_of((0, 0, 0, 6))
    assert best_spans(starts, ends, windows, 1, AnswerOptions()).tolist() == [[4, 5]]
    starts, ends = logits(6, {0: 9, 1: 5}), logits(6, {5: 9, 2: 5})
    assert best_spans(starts, ends, windows, 1, AnswerOptions()).tolist() == [[0, 5]]
    # With at most two tokens, 0-5, 1-5 and 0-2 are too long. Of the others, 1-2 has the highest sum, 10.
    assert best_spans(starts, ends, windows, 1, AnswerOptions(max_answer_length=2)).tolist() == [[1, 2]]


def test_only_the_likeliest_starts_and_ends_are_paired() -> None:
    # The only start and the only end cannot be paired, so no span is possible. Question 1 has no rows and no span.
    starts, ends = logits(4, {3: 9, 0: 8}), logits(4, {0: 9, 3: 8})
    options = AnswerOptions(n_best_answers=1)
    assert best_spans(starts, ends, windows_of((0, 0, 0, 4)), 2, options).tolist() == [[-1, -1]] * 2


def test_logits_that_are_not_finite_are_excluded() -> None:
    starts, ends = logits(3, {1: np.nan, 2: 1}), logits(3, {1: np.nan, 2: 1})
    assert best_spans(starts, ends, windows_of((0, 0, 0, 3)), 1, AnswerOptions()).tolist() == [[2, 2]]
    all_nan = np.full((1, 3), np.nan)
    assert best_spans(all_nan, all_nan, windows_of((0, 0, 0, 3)), 1, AnswerOptions()).tolist() == [[-1, -1]]
    for broken in (np.nan, np.inf):
        line = [np.array([1.0, broken])]
        [answer] = answers_of("a b", [(0, 1), (2, 3)], windows_of((0, 0, 0, 2)), line, line, AnswerOptions())
        assert np.isnan(answer["score"])


def test_scores_are_probabilities_over_the_tokens_of_all_windows() -> None:
    # The numbers are exp(logit). Window 1 contains tokens 0 and 1, window 2 tokens 1 and 2.
    starts = [np.log([1.0, 2.0]), np.log([4.0, 1.0])]
    ends = [np.log([1.0, 1.0]), np.log([2.0, 4.0])]
    windows = windows_of((0, 3, 0, 2), (0, 3, 1, 2))
    answers = answers_of("a b c", [(0, 1), (2, 3), (4, 5)], windows, starts, ends, AnswerOptions(), top_k=3)
    # Starts and ends sum to 8 each. Tokens 1 to 2 have 4/8 x 4/8, token 1 has 4/8 x 2/8, and token 2 has 1/8 x 4/8.
    assert [(each["answer"], each["start"], each["end"]) for each in answers] == [
        ("b c", 2, 5),
        ("b", 2, 3),
        ("c", 4, 5),
    ]
    assert [each["score"] for each in answers] == pytest.approx([16 / 64, 8 / 64, 4 / 64])


def test_blanks_around_an_answer_are_not_part_of_it() -> None:
    assert stripped("so  it\u00a0 is", 2, 8) == ("it", 4, 6)
    assert stripped("a   b", 1, 4) == ("", 4, 4)


def test_recorded_options_replace_the_defaults(tmp_path: Path) -> None:
    assert read_options(tmp_path) == AnswerOptions(384, None, 20, 30)
    (tmp_path / "answer_options.json").write_text('{"max_length": 48, "doc_stride": 0, "max_answer_length": 8}')
    assert read_options(tmp_path) == AnswerOptions(48, 0, 20, 8)
    assert options_of({"max_length": None, "task": "question-answering"}) == AnswerOptions()


@given(data=st.data(), rows=st.integers(1, 6), length=st.integers(2, 9), longest=st.integers(1, 9))
def test_the_best_span_is_the_best_of_all_pairs(data: st.DataObject, rows: int, length: int, longest: int) -> None:
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    # All sums differ, so exactly one span is best.
    starts = random.permutation(rows * length).reshape(rows, length) * 1000.0
    ends = random.permutation(rows * length).reshape(rows, length) * 1.0
    at = random.integers(0, length - 1, rows)
    tokens = random.integers(1, length - at + 1)
    windows = Windows(random.integers(0, 3, rows), at, random.integers(0, 50, rows), tokens)
    expected = np.full((3, 2), -1)
    best = np.full(3, -np.inf)
    for row, (first, last) in product(range(rows), product(range(length), repeat=2)):
        inside = at[row] <= first <= last < at[row] + windows.tokens[row] and last - first < longest
        total = starts[row, first] + ends[row, last]
        if inside and total > best[windows.question[row]]:
            best[windows.question[row]] = total
            shift = windows.first_token[row] - at[row]
            expected[windows.question[row]] = first + shift, last + shift
    result = best_spans(starts, ends, windows, 3, AnswerOptions(n_best_answers=length, max_answer_length=longest))
    assert result.tolist() == expected.tolist()


def test_of_equal_sums_the_window_that_comes_first_in_the_context_wins() -> None:
    # An evaluation sorts its rows by length, so the last window comes first. Tokens 0-1, 2-2 and 4-4 have the sum 8.
    in_context = [(0, 0, 0, 3), (0, 0, 2, 3), (0, 0, 4, 2)]
    starts, ends = logits(3, {0: 4}, {0: 3}, {0: 4}), logits(3, {1: 4}, {0: 5}, {0: 4})
    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
        windows = windows_of(*(in_context[at] for at in order))
        assert best_spans(starts[order], ends[order], windows, 1, AnswerOptions()).tolist() == [[0, 1]]
    answers = answers_of(
        "abcdef", [(at, at + 1) for at in range(6)], windows_of(*in_context), starts, ends, AnswerOptions()
    )
    assert answers[0]["answer"] == "ab"


def test_a_span_that_two_windows_share_ranks_at_the_window_with_its_highest_sum() -> None:
    # Token 3 has the sum 6 in the first window and 8 in the third. Token 4 has 8 in the second.
    windows = windows_of((0, 0, 0, 4), (0, 0, 1, 4), (0, 0, 2, 4))
    starts, ends = logits(4, {3: 3}, {3: 4}, {1: 4}), logits(4, {3: 3}, {3: 4}, {1: 4})
    answers = answers_of("abcdef", [(at, at + 1) for at in range(6)], windows, starts, ends, AnswerOptions(), 2)
    assert [each["answer"] for each in answers] == ["e", "d"]
    assert best_spans(starts, ends, windows, 1, AnswerOptions()).tolist() == [[4, 4]]
