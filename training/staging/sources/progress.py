"""Progress of a staging: one line that a terminal updates, or a line of a log every few seconds.

A thread writes the lines, because the slow parts (a digest, the import of a library, a batch of long texts) do not
return in between.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TextIO, TypeVar

R = TypeVar("R")

FIRST_SECONDS = 1.0
"""Time until the first line. A staging that takes less shows nothing."""
TERMINAL_SECONDS = 0.2
LOG_SECONDS = 5.0


class Progress:
    """Current activity, and the number of rows it has completed."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._started_at = clock, clock()
        self.begin("starting")

    def begin(self, activity: str, total: int | None = None) -> None:
        """Start an activity with `total` rows, or an unknown number."""
        self._activity, self._total, self._done = activity, total, 0

    def count(self, activity: str, rows: Iterable[R], total: int | None = None) -> Iterator[R]:
        """Yield the rows, and count them as an activity."""
        self.begin(activity, total)
        for row in rows:
            yield row
            self._done += 1

    def line(self) -> str:
        parts = [f"Staging: {self._activity}"]
        if self._total:
            parts.append(f"{self._done:,} of {self._total:,} rows ({self._done / self._total:.0%})")
        elif self._done:
            parts.append(f"{self._done:,} rows")
        return ", ".join([*parts, f"{self._clock() - self._started_at:.0f} s"])


@contextmanager
def shown(file: TextIO, first_seconds: float = FIRST_SECONDS) -> Iterator[Progress]:
    """Write the progress of the staging in this context to `file`, from `first_seconds` on.

    A terminal has one line, which is erased at the end. A log gets a line every few seconds.
    """
    progress, done = Progress(), Event()
    thread = Thread(target=_write_lines, args=(progress, file, done, first_seconds), daemon=True)
    thread.start()
    try:
        yield progress
    finally:
        done.set()
        thread.join()


def _write_lines(progress: Progress, file: TextIO, done: Event, first_seconds: float) -> None:
    is_terminal, seconds, is_written = file.isatty(), first_seconds, False
    while not done.wait(seconds):
        line = progress.line()
        width = shutil.get_terminal_size().columns - 1
        _write(file, f"\r\x1b[K{line[:width]}" if is_terminal else f"{line}\n")
        seconds, is_written = TERMINAL_SECONDS if is_terminal else LOG_SECONDS, True
    if is_terminal and is_written:
        _write(file, "\r\x1b[K")


def _write(file: TextIO, text: str) -> None:
    try:
        file.write(text)
        file.flush()
    except (OSError, ValueError):
        return  # The terminal is gone. The staging continues without it.
