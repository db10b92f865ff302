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


class MetricExpressions:
    """Expressions with one group each."""

    def __init__(self, expressions: Mapping[str, str]) -> None:
        self._patterns = {name: regex.compile(text) for name, text in expressions.items()}
        self._slow_lines: dict[str, int] = {}

    @property
    def stopped(self) -> tuple[str, ...]:
        """Names of the expressions that are no longer used, because they took too long."""
        return tuple(name for name, count in self._slow_lines.items() if count >= MAX_SLOW_LINES)

    def matches(self, line: str) -> Iterator[tuple[str, str]]:
        """Yield the name of an expression and the text of its group, for each match in a line."""
        for name, pattern in self._patterns.items():
            if name in self.stopped:
                continue
            try:
                for match in pattern.finditer(line[:MAX_LINE_CHARACTERS], timeout=LINE_SECONDS):
                    yield name, match[1] or ""
            except TimeoutError:
                self._slow_lines[name] = self._slow_lines.get(name, 0) + 1
