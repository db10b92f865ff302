"""Checks of the values in a row of data. Each error is one sentence with the place of the row."""

import ast
import difflib
import json
import re
from collections.abc import Iterable
from typing import Any

from training.job.processes.reporting import BadData

MAX_TEXT_CHARACTERS = 1_500_000
"""Longest text of a row. A tokenizer needs about 160 bytes of memory for each character."""

NUMBER = re.compile(r"[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9]+)?")
"""A number as text. Other spellings, such as 3,5 or nan, are refused."""
NUMPY_LIST = re.compile(r"\[[-+.0-9e\s]+\]")
FOR_NUMBERS = "to predict numbers, set task: regression"
"""Way on for labels that are no classes, for messages."""
LARGEST_NUMBER = 1e18
"""Largest number to predict. The square of larger ones may not be finite in single precision."""


class MissingValue(BadData):
    """A value that is empty or null."""


def checked_text(place: object, column: str, value: Any, may_be_blank: bool = False) -> str:
    """Return the value. Raises `BadData` unless it is text that is not blank and can be written as UTF-8."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)  # Most tools store a text of digits as a number, and a table as text.
    _check_is_set(place, column, value, "text")
    if not isinstance(value, str):
        raise BadData(f"{place}: column {column!r} must be text, not {short_text(value)}")
    if not value.strip() and not may_be_blank:
        raise MissingValue(f"{place}: column {column!r} is empty")
    if len(value) > MAX_TEXT_CHARACTERS:
        size = f"{len(value):,} characters, and a row may have {MAX_TEXT_CHARACTERS:,}"
        raise BadData(f"{place}: column {column!r} has {size}; split the text into several rows")
    if "\0" in value or not is_unicode(value):
        raise BadData(f"{place}: column {column!r} contains a NUL or an unpaired surrogate")
    return value


def _check_is_set(place: object, column: str, value: Any, kind: str) -> None:
    """Raise `MissingValue` for null, which most tools store as NaN in a column of numbers."""
    if value is None or value != value:
        raise MissingValue(f"{place}: column {column!r} must be {kind}, not {short_text(value)}")


def checked_number(place: object, column: str, value: Any) -> float:
    """Return a number, which a table holds as text. Raises `BadData` unless it is finite and can be squared."""
    _check_is_set(place, column, None if value == "" else value, "a number, such as 3.5")
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if isinstance(value, str) and NUMBER.fullmatch(value.strip()):
        is_number, value = True, float(value)
    if not is_number or not abs(value) <= LARGEST_NUMBER:
        limit = f" of at most {LARGEST_NUMBER:g}" if is_number else ", such as 3.5"
        raise BadData(f"{place}: column {column!r} must be a number{limit}, not {short_text(value)}")
    return float(value)


def checked_list(place: object, column: str, value: Any) -> list[Any]:
    """Return the value of a column of lists. Raises `BadData` for anything else."""
    _check_is_set(place, column, value, "a list")
    value = from_json(value)
    if isinstance(value, list):
        return value
    hint = '; a table holds a list as JSON, such as ["a", "b"]' if isinstance(value, str) else ""
    raise BadData(f"{place}: column {column!r} must be a list, not {short_text(value)}{hint}")


def from_json(value: Any) -> Any:
    """Return the list or object that a cell of a table holds as JSON or as pandas writes it; else the value."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        for read in (json.loads, ast.literal_eval, _numpy_list):
            try:
                return read(value.strip())
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                pass
    return value


def _numpy_list(text: str) -> list[Any]:
    """Return the numbers of an array as NumPy writes it, such as `[0 1 0]`."""
    if not NUMPY_LIST.fullmatch(text):
        raise ValueError("not a list of numbers")
    return [json.loads(each) for each in text[1:-1].split()]


def is_unicode(text: str) -> bool:
    """Return whether text can be written as UTF-8, which some JSON escapes cannot."""
    return text.isascii() or text.encode("utf-8", "ignore").decode("utf-8") == text


def checked_label(place: object, column: str, value: Any) -> Any:
    """Return a label, text without surrounding blanks or a whole number. Raises `BadData` for lists and objects."""
    _check_is_set(place, column, value, "a word or a number")
    if isinstance(value, str):
        return checked_text(place, column, value).strip()
    if not isinstance(value, (int, float)):
        raise BadData(f"{place}: label {short_text(value)} must be a word, a number, true or false")
    return plain_label(value)


def plain_label(value: Any) -> Any:
    """Return `true` or `false` and a number with decimals as text, and 4.0 as 4, as tools store a 4 among nulls."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return int(value) if value.is_integer() else str(value)
    return value


def short_text(value: Any) -> str:
    """Return a value as short text for an error message."""
    if value is None:
        return "null"
    # Python refuses to convert an integer of thousands of digits to text.
    if isinstance(value, int) and abs(value) >= 10**30:
        return "a number of more than 30 digits"
    if isinstance(value, (list, tuple, dict, set)):
        return f"a {type(value).__name__}"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def nearest(value: str, known: Iterable[str]) -> str:
    """Return ` Did you mean 'x'?` for the known name closest to `value`, or an empty string."""
    name = nearest_name(value, known)
    return f" Did you mean {name!r}?" if name else ""


def nearest_name(value: str, known: Iterable[str]) -> str | None:
    """Return the known name closest to `value`, or None if none is close."""
    return next(iter(difflib.get_close_matches(value, list(known), n=1, cutoff=0.6)), None)
