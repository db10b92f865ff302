"""Read SQuAD's JSON (`data[].paragraphs[].qas[].answers[]`) as one row per question, like the Hub's `squad`.

Format: https://rajpurkar.github.io/SQuAD-explorer/. Unanswerable questions of version 2 have an empty list of answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.contract.errors import InputError, nearest
from training.staging.formats.expansion import Expansion
from training.staging.formats.json_rows import array_rows, is_json_array
from training.staging.formats.json_stream import json_stream
from training.staging.formats.row import MAX_COMPARED, Row
from training.staging.formats.text_format import DEFAULT_FORMAT, TextFormat
from training.staging.rows.examples import short_text
from training.staging.rows.questions import COLUMNS
from training.staging.sources.file_rows import Readers

TYPE_NAMES: dict[type, str] = {str: "text", int: "a whole number", list: "a list", dict: "an object"}


@dataclass(frozen=True)
class _Node:
    """A value in the file, with its path."""

    file: Path
    path: str
    """Path within the document, such as `data[3].paragraphs[0]`; empty for the document itself."""
    value: Any

    def get(self, name: str, kind: type) -> Any:
        """Return a field of this object. Raises InputError if it is missing or has another type."""
        fields = _checked(self, dict)
        if name not in fields:
            listed = ", ".join(repr(str(key)[:60]) for key in list(fields)[:20]) or "none"
            location = f"{self.file}: {self.path}" if self.path else f"{self.file}"
            raise InputError(f"{location} has no {name!r}; it has {listed}.{nearest(name, fields)}")
        return _checked(_Node(self.file, f"{self.path}.{name}".lstrip("."), fields[name]), kind)

    def items(self, name: str) -> Iterator[_Node]:
        """Yield the elements of a list in this object."""
        for index, value in enumerate(self.get(name, list)):
            yield _Node(self.file, f"{self.path}.{name}[{index}]".lstrip("."), value)


def _checked(node: _Node, kind: type) -> Any:
    if not isinstance(node.value, kind) or isinstance(node.value, bool):
        path = node.path or "the document"
        raise InputError(f"{node.file}: {path} must be {TYPE_NAMES[kind]}, not {short_text(node.value)}")
    return node.value


def squad_rows(path: Path, expansion: Expansion, text: TextFormat = DEFAULT_FORMAT) -> Iterator[Row]:
    """Yield (number from 1, [id, context, question, answers]) for every question, in the file's order.

    A JSON array has one question in each element instead, with the columns of the Hub's `squad`. Raises InputError if
    the questions, each with its context, have more text than the limit.
    """
    if is_json_array(path, text):
        yield from array_rows(path, COLUMNS, expansion, text)
        return
    number = 0
    for article in _articles(path, expansion, text):
        for paragraph in article.items("paragraphs"):
            context = paragraph.get("context", str)
            for entry in paragraph.items("qas"):
                number += 1
                expansion.add(len(context))
                yield number, [entry.get("id", str), context, entry.get("question", str), _answers(entry)]


def _answers(entry: _Node) -> dict[str, list[Any]]:
    answers = list(entry.items("answers"))
    return {
        "text": [answer.get("text", str) for answer in answers],
        "answer_start": [answer.get("answer_start", int) for answer in answers],
    }


def _articles(path: Path, expansion: Expansion, text: TextFormat) -> Iterator[_Node]:
    """Yield the elements of `data`. Only one of them is in memory at a time."""
    names: dict[str, None] = {}
    with json_stream(path, expansion, text) as stream:
        if stream.peek() != "{":
            _checked(_Node(path, "", stream.value()), dict)
        for name in stream.fields():
            if len(names) < MAX_COMPARED or name == "data":
                names[name] = None
            if name == "data" and stream.peek() == "[":
                for index, article in enumerate(stream.elements()):
                    yield _Node(path, f"data[{index}]", article)
            else:
                value = stream.value()
                if name == "data":
                    _checked(_Node(path, name, value), list)
        stream.end()
    if "data" not in names:
        _Node(path, "", names).get("data", list)


READERS: Readers = {".json": ("question", squad_rows)}
