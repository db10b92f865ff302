"""Progress of a staging, in a terminal and in a log."""

from __future__ import annotations

import io
import os
from threading import Event

from training.staging.sources.progress import Progress, shown


class SignallingLog(io.StringIO):
    """A log that signals its first line."""

    def __init__(self) -> None:
        super().__init__()
        self.has_line = Event()

    def write(self, text: str) -> int:
        written = super().write(text)
        self.has_line.set()
        return written


def test_a_line_has_the_activity_the_rows_and_the_time() -> None:
    times = iter([100.0, 101.0, 105.0, 160.0])
    progress = Progress(clock=lambda: next(times))
    progress.begin("loading the tokenizer")
    assert progress.line() == "Staging: loading the tokenizer, 1 s"
    rows = progress.count("checking a.csv", range(3_000))
    assert [next(rows), next(rows), next(rows)] == [0, 1, 2]
    assert progress.line() == "Staging: checking a.csv, 2 rows, 5 s"
    assert len(list(progress.count("tokenising train rows", range(1_500), total=6_000))) == 1_500
    assert progress.line() == "Staging: tokenising train rows, 1,500 of 6,000 rows (25%), 60 s"


def test_a_log_gets_lines_while_the_work_does_not_return() -> None:
    log = SignallingLog()
    with shown(log, first_seconds=0.01) as progress:
        progress.begin("waiting")
        assert log.has_line.wait(60)
    assert log.getvalue().startswith("Staging: waiting, ")
    assert log.getvalue().endswith(" s\n")


def test_the_line_in_a_terminal_is_updated_and_erased_at_the_end() -> None:
    master, slave = os.openpty()
    text = ""
    with os.fdopen(slave, "w") as terminal:
        with shown(terminal, first_seconds=0.01) as progress:
            progress.begin("reading")
            while text.count("Staging: reading") < 2:
                text += os.read(master, 1000).decode()
        while not text.endswith("\r\x1b[K"):
            text += os.read(master, 1000).decode()
    os.close(master)
    assert "\n" not in text
