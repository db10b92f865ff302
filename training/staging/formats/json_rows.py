"""Read JSON row by row: JSON Lines, arrays of objects, and the questions of SQuAD's documents."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from training.contract.errors import InputError, nearest, short_text
from training.job.tasks import SQUAD_COLUMNS
from training.staging.formats.files import (
    BYTE_ORDER_MARK,
    MAX_LINE_CHARACTERS,
    Row,
    TextFormat,
    first_invalid,
    missing_column,
    not_text,
    open_text,
    plain_suffix,
    text_lines,
)

TYPE_NAMES: dict[type, str] = {str: "text", int: "a whole number", list: "a list", dict: "an object"}
START_CHARACTERS = 4_096
AS_ROWS = "write it as rows, such as with pandas' to_json(path, orient='records', lines=True)"
CHUNK_CHARACTERS = 2**19
LONGEST_TOKEN = 16
"""Longest piece that is not a string, such as `-Infinity` or `\\ud83d`. An error so near the end may be a cut."""
BLANKS = " \t\n\r"


def json_rows(path: Path, columns: Sequence[str], text: TextFormat) -> Iterator[Row]:
    """Yield the rows of a file with the suffix .json: a JSON array of objects, or JSON Lines."""
    if is_json_array(path, text):
        return array_rows(path, columns, text)
    return line_rows(path, columns, text)


def is_json_array(path: Path, text: TextFormat) -> bool:
    """Return whether a file contains a JSON array, by its first character. Raises InputError for one without text."""
    with open_text(path, text) as stream:
        start = stream.read(START_CHARACTERS)
    return start.removeprefix(BYTE_ORDER_MARK).lstrip().startswith("[")


def array_rows(path: Path, columns: Sequence[str], text: TextFormat) -> Iterator[Row]:
    """Yield the values of `columns` for every object of a JSON array. Only one of them is in memory at a time."""
    with open_text(path, text) as file:
        stream = JsonStream(path, file, text, MAX_LINE_CHARACTERS)
        for number, row in enumerate(stream.elements(), start=1):
            yield number, _values(f"{path} row {number}", row, columns)
        stream.end()


def line_rows(path: Path, columns: Sequence[str], text: TextFormat) -> Iterator[Row]:
    """Yield the values of `columns` for every line that is not blank."""
    for number, line in text_lines(path, text):
        if not line.strip():
            continue
        location, suffix = f"{path} line {number}", plain_suffix(path)
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            reason = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
            raise InputError(f"{location} is not JSON: {reason}{_advice(line, suffix)}") from error
        if isinstance(row, list):
            raise InputError(f"{location} must be a JSON object, not list{_advice(line, suffix)}")
        if (
            number == 1
            and isinstance(row, dict)
            and len(row) > 1
            and all(isinstance(each, dict) for each in row.values())
        ):
            raise InputError(f"{location} contains a whole table by columns; {AS_ROWS}")
        yield number, _values(location, row, columns)


def _advice(line: str, suffix: str) -> str:
    """Return the way on for a document that is spread over lines, or an array; empty for other text."""
    start = line.strip()
    if start.startswith("[") and suffix != ".json":
        return "; a file that is one JSON array needs the suffix .json"
    return "; each line must be one object, or the file one array of objects" if start == "{" else ""


def _values(location: str, row: Any, columns: Sequence[str]) -> list[Any]:
    if not isinstance(row, Mapping):
        raise InputError(f"{location} must be a JSON object, not {type(row).__name__}")
    try:
        return [row[column] for column in columns]
    except KeyError as error:
        raise missing_column(location, error.args[0], list(row)) from error


def squad_rows(path: Path, text: TextFormat) -> Iterator[Row]:
    """Yield (number from 1, [id, context, question, answers]) for every question of SQuAD's JSON, in the file's order.

    Its form is `data[].paragraphs[].qas[].answers[]`: see https://rajpurkar.github.io/SQuAD-explorer/. Unanswerable
    questions of version 2 have an empty list of answers.

    A JSON array has one question in each element instead, with the columns of the Hub's `squad`.
    """
    if is_json_array(path, text):
        yield from array_rows(path, SQUAD_COLUMNS, text)
        return
    with open_text(path, text) as file:
        stream = JsonStream(path, file, text)
        document = _Node(path, "", stream.value())
        stream.end()
    number = 0
    for article in document.items("data"):
        for paragraph in article.items("paragraphs"):
            context = paragraph.get("context", str)
            for entry in paragraph.items("qas"):
                number += 1
                answers = list(entry.items("answers"))
                listed = {
                    "text": [answer.get("text", str) for answer in answers],
                    "answer_start": [answer.get("answer_start", int) for answer in answers],
                }
                yield number, [entry.get("id", str), context, entry.get("question", str), listed]


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


class JsonStream:
    """Position in a JSON document. Only the value that is being read is in memory, and a chunk of the rest."""

    def __init__(self, path: Path, stream: TextIO, text: TextFormat, max_value_characters: int | None = None) -> None:
        self._path, self._stream, self._format = path, stream, text
        self._max_value_characters = max_value_characters
        self._json = json.JSONDecoder()
        self._text, self._at, self._is_complete = "", 0, False
        self._line, self._column = 1, 1
        self._fill(CHUNK_CHARACTERS)
        self._text = self._text.removeprefix(BYTE_ORDER_MARK)

    def peek(self) -> str:
        """Return the next character that is not blank, without reading it; empty at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in BLANKS:
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if self._is_complete:
                return ""
            self._fill(CHUNK_CHARACTERS)

    def accept(self, character: str) -> bool:
        """Read this character if it is the next one that is not blank, and return whether it is."""
        if self.peek() != character:
            return False
        self._at += 1
        return True

    def value(self) -> Any:
        self.peek()
        while True:
            try:
                value, end = self._json.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                is_cut = error.msg.startswith("Unterminated string") or error.pos >= len(self._text) - LONGEST_TOKEN
                if self._is_complete or not is_cut:
                    raise self._error(error.msg, error.pos) from error
            except (ValueError, RecursionError) as error:
                raise InputError(f"{self._path} is not JSON: {error}") from error
            else:
                if end + 2 < len(self._text) or self._is_complete:  # 1 may become 1e-9
                    self._at = end
                    return value
            if (limit := self._max_value_characters) is not None and len(self._text) - self._at > limit:
                line, _ = self._position(self._at)
                raise InputError(f"{self._path} line {line} has a value of more than {limit:,} characters")
            self._fill(max(CHUNK_CHARACTERS, len(self._text) - self._at))

    def elements(self) -> Iterator[Any]:
        """Yield the values in the list that is next."""
        self.accept("[")
        if self.accept("]"):
            return
        yield self.value()
        while self.accept(","):
            yield self.value()
        if not self.accept("]"):
            raise self._error("Expecting ',' delimiter", self._at)

    def end(self) -> None:
        """Raise InputError unless the document ends here."""
        if self.peek():
            raise self._error("Extra data", self._at, "; a file of JSON Lines needs the suffix .jsonl")

    def _fill(self, size: int) -> None:
        """Read more text, and drop what was read before the position."""
        self._line, self._column = self._position(self._at)
        more = self._stream.read(size)
        rest, self._at, self._is_complete = self._text[self._at :], 0, not more
        self._text = rest + more
        if (at := first_invalid(more)) is not None:
            raise not_text(self._path, *self._position(len(rest) + at), more, at, self._format)

    def _position(self, at: int) -> tuple[int, int]:
        """Return the (line, column) of an index of the text, both from 1."""
        lines = self._text.count("\n", 0, at)
        if not lines:
            return self._line, self._column + at
        return self._line + lines, at - self._text.rindex("\n", 0, at)

    def _error(self, reason: str, at: int, hint: str = "") -> InputError:
        line, column = self._position(at)
        return InputError(f"{self._path} is not JSON: {reason} at line {line} column {column}{hint}")
