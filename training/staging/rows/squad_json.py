"""Read SQuAD's JSON (`data[].paragraphs[].qas[].answers[]`) as one row per question, like the Hub's `squad`.

Format: https://rajpurkar.github.io/SQuAD-explorer/. Unanswerable questions of version 2 have an empty list of answers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.contract.errors import InputError, nearest
from training.staging.rows.examples import short_text
from training.staging.sources.expansion import Expansion, check_values
from training.staging.sources.files import BYTE_ORDER_MARK, read_whole
from training.staging.sources.row import Row

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


def squad_rows(path: Path, expansion: Expansion) -> Iterator[Row]:
    """Yield (number from 1, [id, context, question, answers]) for every question, in the file's order.

    Raises InputError if the questions, each with its context, have more text than the limit.
    """
    number = 0
    for article in _document(path, expansion).items("data"):
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


def _document(path: Path, expansion: Expansion) -> _Node:
    content = read_whole(path, expansion)
    try:
        text = content.decode("utf-8").removeprefix(BYTE_ORDER_MARK)
        check_values(str(path), text)
        return _Node(path, "", json.loads(text))
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8: byte 0x{content[error.start]:02x} at {error.start} is invalid"
        ) from error
    except json.JSONDecodeError as error:
        position = f"line {error.lineno} column {error.colno}"
        hint = "; a file of JSON Lines needs the suffix .jsonl" if error.msg == "Extra data" else ""
        raise InputError(f"{path} is not JSON: {error.msg} at {position}{hint}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {error}") from error
