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

from tests.support.staging.tables import write
from training.contract.errors import InputError
from training.staging.formats.json_rows import SQUAD_COLUMNS
from training.staging.formats.readers import read_rows
from training.staging.rows.questions import (
    Answer,
    Question,
    QuestionSurvey,
    read_questions,
)
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
QUESTIONS = [
    Question(id="a", context=CONTEXT, question="Who won?", answers=(Answer(text="Denver", start=2),)),
    Question(id="b", context=CONTEXT, question="Score?", answers=(Answer(text="24–10", start=25),)),
    Question(id="c", context="Empty.", question="?", answers=()),
]


def squad_file(folder: Path, document: Any, name: str = "squad.json") -> Path:
    path = folder / name
    content = document if isinstance(document, bytes) else json.dumps(document).encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def read(path: Path, limit: int | None = None) -> list[Question]:
    return surveyed(Table(name=str(path), unit="question", rows=islice(read_rows(path, SQUAD_COLUMNS), limit)))


def surveyed(table: Table) -> list[Question]:
    """Return the questions of a table after the checks that a survey makes."""
    questions, survey = list(read_questions(table)), QuestionSurvey(table)
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


@pytest.mark.parametrize("name", ["squad.json", "squad.json.gz", "SQUAD.JSON"])
def test_questions_are_read_from_squad_json(tmp_path: Path, name: str) -> None:
    assert read(squad_file(tmp_path, SQUAD, name)) == QUESTIONS
    assert read(squad_file(tmp_path, b"\xef\xbb\xbf" + json.dumps(SQUAD).encode(), name)) == QUESTIONS
    assert read(squad_file(tmp_path, SQUAD, name), limit=1) == QUESTIONS[:1]


@pytest.mark.parametrize("suffix", ["jsonl", "parquet", "jsonl.gz"])
@pytest.mark.parametrize("form", ["object of lists", "list of objects"])
def test_questions_are_read_from_tables(tmp_path: Path, suffix: str, form: str) -> None:
    rows = []
    for each in QUESTIONS[:2]:
        answers: Any = [{"text": answer.text, "answer_start": answer.start} for answer in each.answers]
        if form == "object of lists":
            answers = {key: [answer[key] for answer in answers] for key in ("text", "answer_start")}
        rows.append({"id": each.id, "context": each.context, "question": each.question, "answers": answers})
    path = write(tmp_path / f"flat.{suffix}", rows)
    table = Table(name="flat", unit="line", rows=read_rows(path, SQUAD_COLUMNS))
    assert surveyed(table) == QUESTIONS[:2]


PARAGRAPH = ["data", 0, "paragraphs", 0]
QUESTION = [*PARAGRAPH, "qas", 1]
ANSWER = [*QUESTION, "answers", 0]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["data"], ..., "FILE has no 'data'; it has 'version'"),
        (["data"], {}, "FILE: data must be a list, not a dict"),
        (["data", 1], "x", "FILE: data[1] must be an object, not 'x'"),
        (["data", 0, "paragraphs"], ..., "FILE: data[0] has no 'paragraphs'; it has 'title'"),
        (["data", 0, "paragraphs"], None, "FILE: data[0].paragraphs must be a list, not null"),
        (PARAGRAPH, 3, "FILE: data[0].paragraphs[0] must be an object, not 3"),
        ([*PARAGRAPH, "context"], ..., "FILE: data[0].paragraphs[0] has no 'context'; it has 'qas'"),
        ([*PARAGRAPH, "context"], 5, "FILE: data[0].paragraphs[0].context must be text, not 5"),
        ([*PARAGRAPH, "qas"], ..., "FILE: data[0].paragraphs[0] has no 'qas'; it has 'context'"),
        (QUESTION, [], "FILE: data[0].paragraphs[0].qas[1] must be an object, not a list"),
        ([*QUESTION, "id"], ..., "FILE: data[0].paragraphs[0].qas[1] has no 'id'; it has 'question', 'answers'"),
        ([*QUESTION, "id"], 7, "FILE: data[0].paragraphs[0].qas[1].id must be text, not 7"),
        ([*QUESTION, "question"], ..., "FILE: data[0].paragraphs[0].qas[1] has no 'question'"),
        ([*QUESTION, "answers"], ..., "FILE: data[0].paragraphs[0].qas[1] has no 'answers'"),
        ([*QUESTION, "answers"], {"text": []}, "FILE: data[0].paragraphs[0].qas[1].answers must be a list, not a dict"),
        (ANSWER, None, "FILE: data[0].paragraphs[0].qas[1].answers[0] must be an object, not null"),
        ([*ANSWER, "text"], ..., "FILE: data[0].paragraphs[0].qas[1].answers[0] has no 'text'"),
        ([*ANSWER, "text"], ["x"], "FILE: data[0].paragraphs[0].qas[1].answers[0].text must be text, not a list"),
        ([*ANSWER, "answer_start"], ..., "FILE: data[0].paragraphs[0].qas[1].answers[0] has no 'answer_start'"),
        ([*ANSWER, "answer_start"], "25", "FILE: data[0].paragraphs[0].qas[1].answers[0].answer_start must be a whole"),
        ([*ANSWER, "answer_start"], True, "FILE: data[0].paragraphs[0].qas[1].answers[0].answer_start must be a whole"),
        (
            [*ANSWER, "answer_start"],
            -1,
            "FILE question 2 ('b'): answer_start must be a whole number of at least 0, not -1",
        ),
        ([*ANSWER, "text"], " ", "FILE question 2 ('b'): column 'answers.text' is empty"),
        ([*PARAGRAPH, "context"], "\t ", "FILE question 1: column 'context' is empty"),
        ([*QUESTION, "id"], " ", "FILE question 2: column 'id' is empty"),
        ([*QUESTION, "id"], "a", "FILE question 2: the question id 'a' is not unique"),
        (
            [*QUESTION, "question"],
            "\ud800",
            "FILE question 2: column 'question' contains a NUL or an unpaired surrogate",
        ),
        (["data"], [], "FILE has no questions"),
    ],
)
def test_a_malformed_file_is_an_error_with_its_path(tmp_path: Path, path: list[Any], value: Any, message: str) -> None:
    assert refused(squad_file(tmp_path, changed(path, value))).startswith(message)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (26, "answer_start 26 of its context, which has '4–10.'; it is at 25"),
        (0, "answer_start 0 of its context, which has '  Den'; it is at 25"),
        (31, "answer_start 31 of its context, past its end (31 characters); it is at 25"),
        (
            10**40,
            "answer_start a number of more than 30 digits of its context, past its end (31 characters); it is at 25",
        ),
    ],
)
def test_an_answer_at_a_wrong_position_is_an_error(tmp_path: Path, start: int, message: str) -> None:
    path = squad_file(tmp_path, changed([*ANSWER, "answer_start"], start))
    assert refused(path).startswith(f"FILE question 2 ('b'): the answer '24–10' is not at {message}")
    assert refused(path).endswith("; it is at 25")


def test_an_answer_that_is_not_in_its_context_is_an_error(tmp_path: Path) -> None:
    path = squad_file(tmp_path, changed([*ANSWER, "text"], "Seattle"))
    assert refused(path).endswith("is not at answer_start 25 of its context, which has '24–10.'")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "FILE is empty"),
        (b"[]", "FILE has no questions"),
        (b"[[]]", "FILE row 1 must be a JSON object, not list"),
        (b'[{"id": "a"}]', "FILE row 1 has no column 'context'; it has 'id'"),
        (b'{"data": [}', "FILE is not JSON: Expecting value at line 1 column 11"),
        (
            b'{"id": "a"}\n{"id": "b"}\n',
            "FILE is not JSON: Extra data at line 2 column 1; a file of JSON Lines needs the suffix .jsonl",
        ),
        (b'{"data": "\xff"}', "FILE line 1 is not UTF-8: byte 0xff at column 11 is invalid"),
        (b"[" * 100_000, "FILE is not JSON: maximum recursion depth"),
        (b'{"data": ' + b"[" * 100_000, "FILE is not JSON: maximum recursion depth"),
        (b'{"data": [],}', "FILE is not JSON: Expecting property name enclosed in double quotes at line 1 column 13"),
        (b'{"data": []', "FILE is not JSON: Expecting ',' delimiter at line 1 column 12"),
        (b'{"data" []}', "FILE is not JSON: Expecting ':' delimiter at line 1 column 9"),
    ],
)
def test_a_file_that_is_not_squad_json_is_an_error(tmp_path: Path, content: bytes, message: str) -> None:
    assert refused(squad_file(tmp_path, content)).startswith(message)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ("Denver", "answers must contain two lists, 'text' and 'answer_start', not 'Denver'"),
        (None, "answers must contain two lists, 'text' and 'answer_start', not null"),
        ({"text": ["Denver"]}, "answers must contain two lists, 'text' and 'answer_start', not a dict"),
        ({"text": ["Denver"], "answer_start": []}, "answers has 1 texts, but 0 values of answer_start"),
        ({"text": ["Denver"], "answer_start": [2.0]}, "answer_start must be a whole number of at least 0, not 2.0"),
    ],
)
def test_malformed_answers_are_an_error(answers: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        surveyed(Table(name="FILE", unit="line", rows=iter([(4, ["a", CONTEXT, "Who?", answers])])))
    assert str(caught.value) == f"FILE line 4 ('a'): {message}"


def split(questions: Sequence[Question], *, share: float, seed: int) -> tuple[list[Question], list[Question]]:
    survey = QuestionSurvey(Table(name="x", unit="line", rows=iter([])))
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
        Question(id=f"{context}-{at}", context=f"context {context}", question="?", answers=())
        for context in range(10)
        for at in range(3)
    ]
    training, validation = split(questions, share=0.2, seed=0)
    assert (len(training), len(validation)) == (24, 6)
    assert {each.context for each in training}.isdisjoint({each.context for each in validation})
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
    questions = [Question(id=str(at), context=f"c{each}", question="?", answers=()) for at, each in enumerate(numbers)]
    _, validation = split(questions, share=0.3, seed=seed)
    assert [question.context for question in validation] == [f"c{each}" for each in numbers if each in aside]


def test_real_questions_are_accepted(shared: Path) -> None:
    questions = read(shared / "data" / "squad-v1.1-dev-first1500.json.gz")
    assert len(questions) == 1_500
    assert sum(len(question.answers) for question in questions) == 4_500
    assert questions[0].id == "56be4db0acb8001400a502ec"
