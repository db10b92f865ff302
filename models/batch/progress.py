"""Print the progress of a prediction: one updating line on a terminal, or one line per minute in a log."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Self, TextIO

_TERMINAL_SECONDS = 0.2
_LOG_SECONDS = 60.0


class Progress:
    """Prints the rows done, the rate and the remaining time."""

    def __init__(self, what: str, file: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._label, self._file, self._clock = what, file, clock
        self._is_terminal = file.isatty()
        self._began_at = self._printed_at = clock()
        self._done_before = 0
        self._total: int | None = None

    def set_total(self, total: int, *, done_before: int) -> Self:
        """Set the number of rows, and how many of them an earlier process predicted."""
        self._total, self._done_before = total, done_before
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_terminal:
            self._echo("\r\x1b[K")

    def update(self, done: int) -> None:
        """Print the progress, at most once per interval."""
        now = self._clock()
        if now - self._printed_at >= (_TERMINAL_SECONDS if self._is_terminal else _LOG_SECONDS):
            self._printed_at = now
            text = line(self._label, done, self._total, (done - self._done_before) / (now - self._began_at))
            self._echo(f"\r{text}\x1b[K" if self._is_terminal else f"{text}\n")

    def _echo(self, text: str) -> None:
        self._file.write(text)
        self._file.flush()


def line(what: str, done: int, total: int | None, rows_per_second: float) -> str:
    """Return a progress line: rows done, total rows, rate and remaining time."""
    if total is None:
        return f"{what}: {done:,} rows"
    left = f", {_duration((total - done) / rows_per_second)} left" if rows_per_second > 0 else ""
    return f"{what}: {done:,} of {total:,} rows, {rows_per_second:,.1f} rows/s{left}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
