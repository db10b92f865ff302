"""How far a long reading has come: for whoever looks at the terminal, or a line now and then in a log."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Self, TextIO

_TERMINAL_SECONDS = 0.2
_LOG_SECONDS = 5.0


class Reading:
    """Says how many things were read: on one line of a terminal, gone at the end; else a line every five seconds."""

    def __init__(self, what: str, file: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._what, self._file, self._clock = what, file, clock
        self._is_terminal = file.isatty()
        self._said_at = clock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_terminal:
            self._say("\r\x1b[K")

    def saw(self, count: int) -> None:
        """Say it, where the last time is long enough ago."""
        now = self._clock()
        if now - self._said_at >= (_TERMINAL_SECONDS if self._is_terminal else _LOG_SECONDS):
            self._said_at = now
            text = f"Reading: {count:,} {self._what}"
            self._say(f"\r{text}" if self._is_terminal else f"{text}\n")

    def _say(self, text: str) -> None:
        self._file.write(text)
        self._file.flush()
