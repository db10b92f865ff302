"""Questions from SQuAD's JSON and from flat files, and the location of each error."""

from __future__ import annotations

import copy
import gzip
import json
import random
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.contract.errors import InputError
from training.job.tasks import SQUAD_COLUMNS, TASKS, Row
from training.staging.formats.readers import read_rows
from training.staging.rows.selection import Survey, task_rows
from training.staging.sources.request import Data
from training.staging.sources.sources import Table

CONTEXT = "  Denver beat Carolina \U0001f600 24–10."
SQUAD = {
    "version": "1.1",
    "data": [
        {
            "title": "Super Bowl",
            "paragraphs": [
                {
                    "context": CONTEXT,
                    "qas": [
                        {"id": "a", "question": "  Who won?", "answers": [{"text": "Denver", "answer_start": 2}]},
                        # The character before 24 is one code point, though two UTF-16 units.
                        {"id": "b", "question": "Score?", "answers": [{"text": "24–10", "answer_start": 25}]},
                    ],
                }
            ],
        },
        {
            "title": "Nothing",
            "paragraphs": [{"context": "Empty.", "qas": [{"id": "c", "question": "?", "answers": []}]}],
        },
    ],
}


def squad_file(folder: Path, document: Any, name: str = "squad.json") -> Path:
    path = folder / name
    content = document if isinstance(document, bytes) else json.dumps(document).encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


QUESTIONS = TASKS["question-answering"]


def read(path: Path, limit: int | None = None) -> list[Row]:
    return surveyed(Table(name=str(path), unit="question", rows=islice(read_rows(path, SQUAD_COLUMNS), limit)))


def surveyed(table: Table) -> list[Row]:
    """Return the questions of a table after the checks that a survey makes."""
    data = Data(train=table.name)
    questions, survey = list(task_rows(QUESTIONS, table, data)), Survey(QUESTIONS, table, data)
    for question in questions:
        survey.add(question)
    survey.finish(lambda: iter(questions))
    return questions


def refused(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read(path)
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(str(path), "FILE")


def changed(path: list[Any], value: Any) -> Any:
    """Return SQUAD with a different value at the path. `...` removes the key."""
    document = copy.deepcopy(SQUAD)
    node: Any = document
    for step in path[:-1]:
        node = node[step]
    if value is ...:
        del node[path[-1]]
    else:
        node[path[-1]] = value
    return document


PARAGRAPH = ["data", 0, "paragraphs", 0]
QUESTION = [*PARAGRAPH, "qas", 1]
ANSWER = [*QUESTION, "answers", 0]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ([*QUESTION, "id"], 7, "FILE: data[0].paragraphs[0].qas[1].id must be text, not 7"),
        ([*ANSWER, "answer_start"], ..., "FILE: data[0].paragraphs[0].qas[1].answers[0] has no 'answer_start'"),
        ([*ANSWER, "answer_start"], True, "FILE: data[0].paragraphs[0].qas[1].answers[0].answer_start must be a whole"),
    ],
)
def test_a_malformed_file_is_an_error_with_its_path(tmp_path: Path, path: list[Any], value: Any, message: str) -> None:
    assert refused(squad_file(tmp_path, changed(path, value))).startswith(message)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ("Denver", "answers must contain two lists, 'text' and 'answer_start', not 'Denver'"),
        ({"text": ["Denver"]}, "answers must contain two lists, 'text' and 'answer_start', not a dict"),
        ({"text": ["Denver"], "answer_start": []}, "answers has 1 texts, but 0 values of answer_start"),
    ],
)
def test_malformed_answers_are_an_error(answers: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        surveyed(Table(name="FILE", unit="line", rows=iter([(4, ["a", CONTEXT, "Who?", answers])])))
    assert str(caught.value) == f"FILE line 4 ('a'): {message}"


def split(questions: Sequence[Row], *, share: float, seed: int) -> tuple[list[Row], list[Row]]:
    survey = Survey(QUESTIONS, Table(name="x", unit="line", rows=iter([])), Data(train="x"))
    for question in questions:
        survey.add(question)
    made = survey.split(share, seed)
    if made is None:
        raise survey.too_few()
    is_validation = made.start()
    sides = [is_validation(question) for question in questions]
    assert sum(sides) == made.validation_rows
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
