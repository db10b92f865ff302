"""Search the lines of a job's log with a user's regular expressions, each for a limited time.

An expression such as `(?:(?:x+)+)+(y)` takes years on a line of thirty x. The package `regex` stops a search after a
time; Python's `re` cannot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import regex

LINE_SECONDS = 0.25
"""Longest search of one expression in one line."""
MAX_SLOW_LINES = 3
"""Slow lines after which an expression is no longer used."""
MAX_LINE_CHARACTERS = 100_000
"""Characters of a line that are searched."""
_NUMBER = regex.compile(r"[-+]?(?:(?:[1-9]\d{0,2}(?:,\d{3})+(?!\d)|\d+)(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")

_NOT_FINITE = regex.compile(r"(?i)(?<![\w.+-])[-+]?(?:nan|inf(?:inity)?)(?!\w)")


def number(text: str) -> float | None:
    """Parse a number as logs write it, such as `1,500`; return None for any other text."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


class MetricExpressions:
    """Expressions with one group each."""

    def __init__(self, expressions: Mapping[str, str]) -> None:
        self._patterns = {name: regex.compile(text) for name, text in expressions.items()}
        self._slow_lines: dict[str, int] = {}

    @property
    def stopped(self) -> tuple[str, ...]:
        """Names of the expressions that are no longer used, because they took too long."""
        return tuple(name for name, count in self._slow_lines.items() if count >= MAX_SLOW_LINES)

    def matches(self, line: str) -> Iterator[tuple[str, float]]:
        """Yield the name of an expression and its number, for each match in a line."""
        for name, pattern in self._patterns.items():
            if name in self.stopped:
                continue
            try:
                yield from ((name, value) for value in _values(pattern, line[:MAX_LINE_CHARACTERS]))
            except TimeoutError:
                self._slow_lines[name] = self._slow_lines.get(name, 0) + 1


def _values(pattern: regex.Pattern[str], line: str) -> list[float]:
    """Return the numbers of an expression's matches. `([0-9.]+)` also finds NaN and infinity: as digits, it matches."""
    for shown in (line, _NOT_FINITE.sub(lambda word: "0" * len(word[0]), line)):
        if matches := list(pattern.finditer(shown, timeout=LINE_SECONDS)):
            texts = (line[slice(*match.span(1))] if shown != line else _whole_number(line, match) for match in matches)
            return [value for value in map(number, texts) if value is not None]
    return []


def _whole_number(line: str, match: regex.Match[str]) -> str:
    """Return the text of a match, up to the end of its number: `([0-9.]+)` matches only 7.2 of 7.2E-5."""
    text = match[1] or ""
    if not text.strip():
        return text
    whole = _NUMBER.match(line, match.end(1) - len(text.lstrip()))
    return whole[0] if whole and whole.end() > match.end(1) else text
