"""Progress of long reads, in a terminal and in a log file."""

from __future__ import annotations

import io
import os
from typing import TextIO

from tracking.queries.job_tables import ReadProgress


def read(file: TextIO, seconds: list[float]) -> None:
    """Read 600 items at each of these seconds after the start."""
    times = iter([0.0, *seconds])
    with ReadProgress("runs", file, clock=lambda: next(times)) as reading:
        for number, _ in enumerate(seconds, start=1):
            reading.update(600 * number)


def test_a_log_file_gets_a_line_every_five_seconds() -> None:
    out = io.StringIO()
    read(out, [1.0, 4.9, 5.0, 9.9, 10.0, 11.0])
    assert out.getvalue() == "Reading: 1,800 runs\nReading: 3,000 runs\n"


def test_a_short_read_writes_nothing() -> None:
    out = io.StringIO()
    read(out, [0.1, 0.2])
    assert out.getvalue() == ""


def test_the_line_in_a_terminal_is_erased_at_the_end() -> None:
    master, slave = os.openpty()
    with os.fdopen(slave, "w") as terminal:
        read(terminal, [0.1, 0.3, 0.4, 0.6])
        shown = ""
        while not shown.endswith("\x1b[K"):
            shown += os.read(master, 1000).decode()
    os.close(master)
    assert shown == "\rReading: 1,200 runs\rReading: 2,400 runs\r\x1b[K"
