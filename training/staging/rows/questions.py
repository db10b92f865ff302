"""Checked questions: each answer is in its context at the stated position, and each id is unique."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from training.contract.errors import InputError
from training.staging.rows.examples import checked_text, short_text
from training.staging.sources.row import Row

COLUMNS = ("id", "context", "question", "answers")
"""Columns of the Hub's `squad`, with one question per row."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An answer that occurs in its context."""

    text: str
    """The answer as spelled in the data."""
    start: int
    """Position of its first character in the context, in code points from 0."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """One question about one context."""

    id: str
    """Id of the question, unique in its file."""
    context: str
    """Text that contains the answer. Leading blanks are kept, because answers have character positions."""
    question: str
    """Question without leading blanks. Some SQuAD questions have hundreds of blanks, which would fill the window."""
    answers: tuple[Answer, ...]
    """All reference answers; empty if the question has none."""


def collect(rows: Iterable[Row], *, source: str, unit: str, limit: int | None) -> list[Question]:
    """Check the first `limit` rows of `COLUMNS`, or all, and return the questions."""
    questions: dict[str, Question] = {}
    for number, values in islice(rows, limit):
        question = _question(f"{source} {unit} {number}", values)
        if question.id in questions:
            raise InputError(f"{source} {unit} {number}: the question id {short_text(question.id)} is not unique")
        questions[question.id] = question
    if not questions:
        raise InputError(f"{source} has no questions")
    return list(questions.values())


def split_by_context(
    questions: Sequence[Question], *, share: float, seed: int, source: str
) -> tuple[list[Question], list[Question]]:
    """Return (training, validation): a random `share` of the contexts, with their questions, becomes validation.

    The order is kept. Questions about one context are similar, so they must not be on both sides.
    """
    contexts = list(dict.fromkeys(question.context for question in questions))
    if len(contexts) < 2:
        raise InputError(f"{source} has only one context, too few to set validation questions aside")
    count = min(max(round(len(contexts) * share), 1), len(contexts) - 1)
    aside = set(random.Random(seed).sample(contexts, count))
    training = [question for question in questions if question.context not in aside]
    return training, [question for question in questions if question.context in aside]


def _question(location: str, values: Sequence[Any]) -> Question:
    name, context, question, answers = values
    name, context = checked_text(location, "id", name), checked_text(location, "context", context)
    pairs = _pairs(f"{location} ({short_text(name)})", answers)
    return Question(
        id=name,
        context=context,
        question=checked_text(location, "question", question, may_be_blank=True).lstrip(),
        answers=tuple(_answer(f"{location} ({short_text(name)})", context, text, start) for text, start in pairs),
    )


def _pairs(location: str, answers: Any) -> list[tuple[Any, Any]]:
    """Return (text, start) of each answer, from an object of two lists or a list of objects."""
    if isinstance(answers, list) and all(isinstance(each, dict) for each in answers):
        answers = {key: [each.get(key) for each in answers] for key in ("text", "answer_start")}
    texts, starts = (answers.get("text"), answers.get("answer_start")) if isinstance(answers, dict) else (None, None)
    if not isinstance(texts, list) or not isinstance(starts, list):
        raise InputError(
            f"{location}: answers must contain two lists, 'text' and 'answer_start', not {short_text(answers)}"
        )
    if len(texts) != len(starts):
        raise InputError(f"{location}: answers has {len(texts)} texts, but {len(starts)} values of answer_start")
    return list(zip(texts, starts, strict=True))


def _answer(location: str, context: str, text: Any, start: Any) -> Answer:
    text = checked_text(location, "answers.text", text)
    if isinstance(start, bool) or not isinstance(start, int) or start < 0:
        raise InputError(f"{location}: answer_start must be a whole number of at least 0, not {short_text(start)}")
    actual = context[start : start + len(text)]
    if actual != text:
        problem = f"which has {short_text(actual)}" if actual else f"past its end ({len(context)} characters)"
        position = context.find(text)
        hint = f"; it is at {position}" if position >= 0 else ""
        raise InputError(
            f"{location}: the answer {short_text(text)} is not at answer_start {short_text(start)} of its context, "
            f"{problem}{hint}"
        )
    return Answer(text=text, start=start)
