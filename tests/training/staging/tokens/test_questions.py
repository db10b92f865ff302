"""Splits of questions. `tests.support.corpus` has questions in every form, and malformed ones."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.contract.errors import InputError
from training.job.tasks import TASKS, Row
from training.staging.sources.request import Data
from training.staging.sources.sources import Table
from training.staging.tokens.rows import Survey

QUESTIONS = TASKS["question-answering"]


def split(questions: Sequence[Row], *, share: float, seed: int) -> tuple[list[Row], list[Row]]:
    survey = Survey(QUESTIONS, Table(name="x", location="x line {}".format, rows=iter([])), Data(train="x"))
    for question in questions:
        survey.add(question)
    sides = survey.split(share, seed)
    if 1 not in sides:
        raise survey.too_few()
    training = [question for question, side in zip(questions, sides, strict=True) if not side]
    return training, [question for question, side in zip(questions, sides, strict=True) if side]


def test_the_split_keeps_the_questions_of_a_context_together() -> None:
    questions = [
        Row(1, (f"context {context}", "?"), id=f"{context}-{at}", group=f"context {context}")
        for context in range(10)
        for at in range(3)
    ]
    training, validation = split(questions, share=0.2, seed=0)
    assert (len(training), len(validation)) == (24, 6)
    assert {each.group for each in training}.isdisjoint({each.group for each in validation})
    assert sorted(each.id for each in training + validation) == sorted(each.id for each in questions)
    assert split(questions, share=0.2, seed=0) == (training, validation)
    with pytest.raises(InputError, match="x has only one context, too few to set validation questions aside"):
        split(questions[:3], share=0.2, seed=0)


@given(st.lists(st.integers(0, 8), min_size=2).filter(lambda each: len(set(each)) > 1), st.integers(0, 9))
def test_contexts_are_set_aside_as_by_earlier_versions(numbers: list[int], seed: int) -> None:
    """Data that an earlier version staged keeps its key, so it must be split the same way."""
    contexts = list(dict.fromkeys(numbers))
    count = min(max(round(len(contexts) * 0.3), 1), len(contexts) - 1)
    aside = set(random.Random(seed).sample(contexts, count))
    questions = [Row(1, (f"c{each}", "?"), id=str(at), group=f"c{each}") for at, each in enumerate(numbers)]
    _, validation = split(questions, share=0.3, seed=seed)
    assert [question.group for question in validation] == [f"c{each}" for each in numbers if each in aside]
