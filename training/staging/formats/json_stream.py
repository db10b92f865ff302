"""Read a large JSON document piece by piece."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from training.contract.errors import InputError
from training.staging.formats.compression import is_packed
from training.staging.formats.expansion import Expansion
from training.staging.formats.text import BYTE_ORDER_MARK, first_invalid, not_text, open_text
from training.staging.formats.text_format import DEFAULT_FORMAT, TextFormat

CHUNK_CHARACTERS = 2**19
LONGEST_TOKEN = 16
"""Longest piece that is not a string, such as `-Infinity` or `\\ud83d`. An error so near the end may be a cut."""
BLANKS = " \t\n\r"


class JsonStream:
    """Position in a JSON document. Only the value that is being read is in memory, and a chunk of the rest."""

    def __init__(
        self,
        path: Path,
        stream: TextIO,
        expansion: Expansion,
        text: TextFormat = DEFAULT_FORMAT,
        max_value_characters: int | None = None,
    ) -> None:
        self._path, self._stream, self._expansion, self._format = path, stream, expansion, text
        self._max_value_characters = max_value_characters
        self._json = json.JSONDecoder()
        self._text, self._at, self._is_complete = "", 0, False
        self._characters, self._line, self._column = 0, 1, 1
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

    def expect(self, character: str, otherwise: str) -> None:
        """Read this character. Raises InputError with the reason `otherwise` if it is not the next one."""
        if not self.accept(character):
            raise self._error(otherwise, self._at)

    def value(self) -> Any:
        """Read a value."""
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

    def fields(self) -> Iterator[str]:
        """Yield the name of each field in the object that is next. The caller reads the field's value."""
        self.expect("{", "Expecting value")
        if self.accept("}"):
            return
        yield self._name()
        while self.accept(","):
            yield self._name()
        self.expect("}", "Expecting ',' delimiter")

    def elements(self) -> Iterator[Any]:
        """Yield the values in the list that is next."""
        self.expect("[", "Expecting value")
        if self.accept("]"):
            return
        yield self.value()
        while self.accept(","):
            yield self.value()
        self.expect("]", "Expecting ',' delimiter")

    def end(self) -> None:
        """Raise InputError unless the document ends here."""
        if self.peek():
            raise self._error("Extra data", self._at, "; a file of JSON Lines needs the suffix .jsonl")

    def _name(self) -> str:
        if self.peek() != '"':
            raise self._error("Expecting property name enclosed in double quotes", self._at)
        name = str(self.value())
        self.expect(":", "Expecting ':' delimiter")
        return name

    def _fill(self, size: int) -> None:
        """Read more text, and drop what was read before the position."""
        self._line, self._column = self._position(self._at)
        more = self._stream.read(size)
        rest, self._at, self._is_complete = self._text[self._at :], 0, not more
        self._text = rest + more
        if (at := first_invalid(more)) is not None:
            raise not_text(self._path, *self._position(len(rest) + at), more, at, self._format)
        self._characters += len(more)
        if is_packed(self._path) and self._characters > self._expansion.limit:
            raise self._expansion.error()

    def _position(self, at: int) -> tuple[int, int]:
        """Return the (line, column) of an index of the text, both from 1."""
        lines = self._text.count("\n", 0, at)
        if not lines:
            return self._line, self._column + at
        return self._line + lines, at - self._text.rindex("\n", 0, at)

    def _error(self, reason: str, at: int, hint: str = "") -> InputError:
        line, column = self._position(at)
        return InputError(f"{self._path} is not JSON: {reason} at line {line} column {column}{hint}")


@contextmanager
def json_stream(
    path: Path,
    expansion: Expansion,
    text: TextFormat = DEFAULT_FORMAT,
    max_value_characters: int | None = None,
) -> Iterator[JsonStream]:
    """Open a JSON document, whose values may have a limit.

    Raises InputError if a compressed file contains more than the limit of `expansion`.
    """
    with open_text(path, text) as stream:
        yield JsonStream(path, stream, expansion, text, max_value_characters)
