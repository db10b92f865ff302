"""Show a counter during long reads."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Self, TextIO

_TERMINAL_SECONDS = 0.2
_LOG_SECONDS = 5.0


class ReadProgress:
    """Counter on one line of a terminal, erased at the end; in a log file, a line every five seconds."""

    def __init__(self, noun: str, file: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._noun, self._file, self._clock = noun, file, clock
        self._is_terminal = file.isatty()
        self._written_at = clock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_terminal:
            self._write("\r\x1b[K")

    def update(self, count: int) -> None:
        """Write the count, unless the last one was written a moment ago."""
        now = self._clock()
        if now - self._written_at >= (_TERMINAL_SECONDS if self._is_terminal else _LOG_SECONDS):
            self._written_at = now
            text = f"Reading: {count:,} {self._noun}"
            self._write(f"\r{text}" if self._is_terminal else f"{text}\n")

    def _write(self, text: str) -> None:
        self._file.write(text)
        self._file.flush()
