"""SQuAD's own JSON (`data[].paragraphs[].qas[].answers[]`), read to the flat rows that the Hub has of the same data.

Format: https://rajpurkar.github.io/SQuAD-explorer/. Unanswerable questions of version 2 have an empty list of answers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.contract.errors import InputError, nearest
from training.staging.rows.examples import shown
from training.staging.sources.files import BYTE_ORDER_MARK, open_bytes
from training.staging.sources.readers import Row

WORDS: dict[type, str] = {str: "text", int: "a whole number", list: "a list", dict: "an object"}


@dataclass(frozen=True)
class _Node:
    """A value within the file, and where it stands."""

    file: Path
    place: str
    """Such as `data[3].paragraphs[0]`; empty for the document itself."""
    value: Any

    def get(self, name: str, kind: type) -> Any:
        """Return a field of this object. Raises `InputError` where it is missing or of another kind."""
        known = _checked(self, dict)
        if name not in known:
            listed = ", ".join(repr(str(key)[:60]) for key in list(known)[:20]) or "none"
            here = f"{self.file}: {self.place}" if self.place else f"{self.file}"
            raise InputError(f"{here} has no {name!r}; it has {listed}.{nearest(name, known)}")
        return _checked(_Node(self.file, f"{self.place}.{name}".lstrip("."), known[name]), kind)

    def items(self, name: str) -> Iterator[_Node]:
        """Yield the elements of a list of this object."""
        for at, value in enumerate(self.get(name, list)):
            yield _Node(self.file, f"{self.place}.{name}[{at}]".lstrip("."), value)


def _checked(node: _Node, kind: type) -> Any:
    if not isinstance(node.value, kind) or isinstance(node.value, bool):
        here = node.place or "the document"
        raise InputError(f"{node.file}: {here} must be {WORDS[kind]}, not {shown(node.value)}")
    return node.value


def squad_rows(path: Path) -> Iterator[Row]:
    """Yield (number from 1, [id, context, question, answers]) of every question, in the file's order."""
    number = 0
    for article in _document(path).items("data"):
        for paragraph in article.items("paragraphs"):
            context = paragraph.get("context", str)
            for asked in paragraph.items("qas"):
                number += 1
                yield number, [asked.get("id", str), context, asked.get("question", str), _answers(asked)]


def _answers(asked: _Node) -> dict[str, list[Any]]:
    answers = list(asked.items("answers"))
    return {
        "text": [answer.get("text", str) for answer in answers],
        "answer_start": [answer.get("answer_start", int) for answer in answers],
    }


def _document(path: Path) -> _Node:
    with open_bytes(path) as stream:
        content = stream.read()
    try:
        return _Node(path, "", json.loads(content.decode("utf-8").removeprefix(BYTE_ORDER_MARK)))
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8: byte 0x{content[error.start]:02x} at {error.start} fits no character"
        ) from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        hint = "; JSON lines are read from .jsonl" if error.msg == "Extra data" else ""
        raise InputError(f"{path} is not JSON: {error.msg} at {where}{hint}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {error}") from error
