"""Questions about contexts, checked: every answer stands in its context where it says, every id occurs once."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from training.contract.errors import InputError
from training.staging.rows.examples import shown, text_of
from training.staging.sources.readers import Row

COLUMNS = ("id", "context", "question", "answers")
"""Columns of the flat form, as the Hub's `squad` has them."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An answer that stands in its context."""

    text: str
    """The answer as the data spells it."""
    start: int
    """Where it begins in the context, characters (code points) from 0."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """One question about one context."""

    id: str
    """Name of the question, unique in its file."""
    context: str
    """Text that holds the answer; its leading blanks count, for answers are placed by character."""
    question: str
    """Without leading blanks: SQuAD has questions with hundreds of them, which would take the window's room."""
    answers: tuple[Answer, ...]
    """All reference answers; empty where the context has none."""


def collect(rows: Iterable[Row], *, source: str, unit: str, limit: int | None) -> list[Question]:
    """Check the first `limit` rows of `COLUMNS`, or all, and return the questions."""
    found: dict[str, Question] = {}
    for number, values in islice(rows, limit):
        question = _question(f"{source} {unit} {number}", values)
        if question.id in found:
            raise InputError(f"{source} {unit} {number}: the question id {shown(question.id)} occurs a second time")
        found[question.id] = question
    if not found:
        raise InputError(f"{source} has no questions")
    return list(found.values())


def split_by_context(
    questions: Sequence[Question], *, share: float, seed: int, source: str
) -> tuple[list[Question], list[Question]]:
    """Return (training, validation): `share` of the contexts set aside with all their questions, the order kept.

    Questions about one context are near to one another: with some on either side, validation would repeat training.
    """
    contexts = list(dict.fromkeys(question.context for question in questions))
    if len(contexts) < 2:
        raise InputError(f"{source} has one context: too few to set validation questions aside")
    count = min(max(round(len(contexts) * share), 1), len(contexts) - 1)
    aside = set(random.Random(seed).sample(contexts, count))
    training = [question for question in questions if question.context not in aside]
    return training, [question for question in questions if question.context in aside]


def _question(place: str, values: Sequence[Any]) -> Question:
    name, context, question, answers = values
    name, context = text_of(place, "id", name), text_of(place, "context", context)
    pairs = _pairs(f"{place} ({shown(name)})", answers)
    return Question(
        id=name,
        context=context,
        question=text_of(place, "question", question, may_be_blank=True).lstrip(),
        answers=tuple(_answer(f"{place} ({shown(name)})", context, text, start) for text, start in pairs),
    )


def _pairs(place: str, answers: Any) -> list[tuple[Any, Any]]:
    """Return (text, start) of each answer, from an object of two lists or a list of objects."""
    if isinstance(answers, list) and all(isinstance(each, dict) for each in answers):
        answers = {key: [each.get(key) for each in answers] for key in ("text", "answer_start")}
    texts, starts = (answers.get("text"), answers.get("answer_start")) if isinstance(answers, dict) else (None, None)
    if not isinstance(texts, list) or not isinstance(starts, list):
        raise InputError(f"{place}: answers must be an object with lists text and answer_start, not {shown(answers)}")
    if len(texts) != len(starts):
        raise InputError(f"{place}: answers has {len(texts)} texts, but {len(starts)} answer_starts")
    return list(zip(texts, starts, strict=True))


def _answer(place: str, context: str, text: Any, start: Any) -> Answer:
    text = text_of(place, "answers.text", text)
    if isinstance(start, bool) or not isinstance(start, int) or start < 0:
        raise InputError(f"{place}: answer_start must be a whole number from 0 up, not {shown(start)}")
    stands = context[start : start + len(text)]
    if stands != text:
        there = f"where {shown(stands)} stands" if stands else f"past its end ({len(context)} characters)"
        raise InputError(
            f"{place}: the answer {shown(text)} is not in its context at answer_start {shown(start)}, {there}"
            f"{_elsewhere(context, text)}"
        )
    return Answer(text=text, start=start)


def _elsewhere(context: str, text: str) -> str:
    at = context.find(text)
    return f"; it stands at {at}" if at >= 0 else ""
