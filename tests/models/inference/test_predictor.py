"""Batches by hand and with random input, answers that do not depend on them, and refused folders."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.inference.predictor import Predictor, batches, evaluation_batches
from tests.support.models.task_models import TEXTS


@given(st.lists(st.integers(1, 600), max_size=60), st.integers(1, 2_000))
def test_every_row_is_in_one_batch_that_fits(lengths: list[int], most_tokens: int) -> None:
    result = batches(lengths, most_tokens)
    assert sorted(at for batch in result for at in batch) == list(range(len(lengths)))
    for batch in result:
        assert len(batch) * max(lengths[at] for at in batch) <= most_tokens or len(batch) == 1
    longest = [max(lengths[at] for at in batch) for batch in result]
    assert longest == sorted(longest, reverse=True)


def test_batches_by_hand() -> None:
    # The longest first: 10 and 9 would take 2 x 10 of 18 tokens; 9 alone leaves no room for 1 (3 x 9) beside 4.
    assert batches([4, 10, 9, 1], 18) == [[1], [2, 0], [3]]
    assert batches([4, 4, 4], 8) == [[0, 1], [2]]


def test_the_batches_of_an_evaluation_by_hand() -> None:
    # Sorted, equal lengths in order: 3, 0, 2, 1, 4. The incomplete batch has the longest rows and runs first.
    assert evaluation_batches([4, 7, 4, 2, 9], 2) == [[4], [2, 1], [3, 0]]
    assert evaluation_batches([5], 8) == [[0]]


@pytest.mark.parametrize("batch_size", [None, 1, 3])
def test_each_question_gets_the_answer_of_all_its_windows(reader: Predictor, batch_size: int | None) -> None:
    """Windows of one question are in several batches, next to those of others."""
    questions = [{"question": "Who won?", "context": text * times} for text in TEXTS if text for times in (1, 9)]
    expected = [reader.answer(each)[0] for each in questions]
    batched = Predictor(reader._task, replace(reader.loaded, batch_size=batch_size))
    with ThreadPoolExecutor(2) as pool:
        answers = batched.answer_encoded(batched.encode(batched.read(questions)), pool.map)
    assert len(answers) == len(questions)
    for at, each in enumerate(expected):
        assert answers[at] == {**each, "score": pytest.approx(each["score"], rel=1e-3)}
