"""Checked questions: each answer is in its context at the stated position, and each id is unique."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from training.contract.errors import InputError, short_text
from training.staging.rows.selection import Reading, Selection, Split, drawn_mask, select, split_by, validation_count
from training.staging.rows.texts import checked_text, hash_of
from training.staging.sources.progress import Progress
from training.staging.sources.request import Data
from training.staging.sources.sources import Table, Tables


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

    number: int = field(default=0, compare=False)
    """Number of its row in the source, from 1; 0 if it has none."""
    id: str
    """Id of the question, unique in its file."""
    context: str
    """Text that contains the answer. Leading blanks are kept, because answers have character positions."""
    question: str
    """Question without leading blanks. Some SQuAD questions have hundreds of blanks, which would fill the window."""
    answers: tuple[Answer, ...]
    """All reference answers; empty if the question has none."""


def read_questions(table: Table) -> Iterator[Question]:
    """Check and yield the rows of a table with the columns `SQUAD_COLUMNS`."""
    for number, values in table.rows:
        yield _question(number, table.location(number), values)


class QuestionSurvey:
    """Ids and contexts of one table's questions, as 64-bit hashes."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._ids, self._contexts = array("Q"), array("Q")

    def add(self, row: Question) -> None:
        """Count a question."""
        self._ids.append(hash_of(row.id))
        self._contexts.append(hash_of(row.context))

    def finish(self, read_again: Callable[[], Iterator[Question]]) -> None:
        """Raise InputError for a table without questions, or two questions with the same id."""
        import numpy as np

        if not self._ids:
            raise InputError(f"{self._table.name} has no questions")
        hashes, counts = np.unique(np.frombuffer(self._ids, np.uint64), return_counts=True)
        repeated = set(hashes[counts > 1].tolist())
        ids: set[str] = set()
        for question in read_again() if repeated else ():
            if hash_of(question.id) in repeated and question.id in ids:
                location = self._table.location(question.number)
                raise InputError(f"{location}: the question id {short_text(question.id)} is not unique")
            if hash_of(question.id) in repeated:
                ids.add(question.id)

    def split(self, share: float, seed: int) -> Split[Question] | None:
        """Set a random share of the contexts aside, with their questions.

        Questions about one context are similar, so they must not be on both sides.
        """
        import numpy as np

        hashes = np.frombuffer(self._contexts, np.uint64)
        _, first, context = np.unique(hashes, return_index=True, return_inverse=True)
        if len(first) < 2:
            return None
        aside = drawn_mask(random.Random(seed), len(first), validation_count(len(first), share))
        # The draw numbers the contexts in the order of their first question, `np.unique` in the order of their hashes.
        in_order = np.empty(len(first), np.uint8)
        in_order[np.argsort(first)] = np.frombuffer(aside, np.uint8)
        return split_by(in_order[context].tobytes())

    def too_few(self) -> InputError:
        """Return the error for a single context."""
        return InputError(f"{self._table.name} has only one context, too few to set validation questions aside")


def select_questions(
    open_tables: Callable[[], Tables], data: Data, progress: Progress
) -> Selection[Question, QuestionSurvey]:
    """Return the questions of both channels. Limits on rows keep the first questions of each after the split."""
    return select(Reading(open=open_tables, rows=read_questions, survey=QuestionSurvey, data=data, progress=progress))


def _question(number: int, location: str, values: Sequence[Any]) -> Question:
    name, context, question, answers = values
    name, context = checked_text(location, "id", name), checked_text(location, "context", context)
    pairs = _pairs(f"{location} ({short_text(name)})", answers)
    return Question(
        number=number,
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
