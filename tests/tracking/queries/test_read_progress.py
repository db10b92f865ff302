"""What a long reading says of how far it has come."""

from __future__ import annotations

import io
import os
from typing import TextIO

from tracking.queries.read_progress import Reading


def read(file: TextIO, seconds: list[float]) -> None:
    """Read a thing at each of these seconds after the start, 600 at a time."""
    times = iter([0.0, *seconds])
    with Reading("runs", file, clock=lambda: next(times)) as reading:
        for number, _ in enumerate(seconds, start=1):
            reading.saw(600 * number)


def test_a_line_every_five_seconds_where_nobody_looks() -> None:
    out = io.StringIO()
    read(out, [1.0, 4.9, 5.0, 9.9, 10.0, 11.0])
    assert out.getvalue() == "Reading: 1,800 runs\nReading: 3,000 runs\n"


def test_a_short_reading_says_nothing() -> None:
    out = io.StringIO()
    read(out, [0.1, 0.2])
    assert out.getvalue() == ""


def test_one_line_of_a_terminal_which_is_gone_at_the_end() -> None:
    master, slave = os.openpty()
    with os.fdopen(slave, "w") as terminal:
        read(terminal, [0.1, 0.3, 0.4, 0.6])
        shown = ""
        while not shown.endswith("\x1b[K"):
            shown += os.read(master, 1000).decode()
    os.close(master)
    assert shown == "\rReading: 1,200 runs\rReading: 2,400 runs\r\x1b[K"
