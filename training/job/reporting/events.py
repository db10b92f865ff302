"""Write the job's events as lines on standard output and, with the same JSON, in `events.jsonl`.

`training/contract/events.py` documents the events and reads them.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, Optional

EVENT_PREFIX = "trainfare-event "
PART_PREFIX = "trainfare-part "
MAX_CHARACTERS = 4000
"""Longest event on one line; a longer event is split into parts. With its prefix and in ASCII, a line is at most 4096
bytes long. Linux writes that many (PIPE_BUF) into a pipe at once or waits, so no other process writes into the line,
and SageMaker's toolkit, which prints whatever the pipe holds as lines, does not break it. The limits of Docker (16 KiB
per line) and CloudWatch (256 KiB) are higher."""
FILE_NAME = "events.jsonl"


class Events:
    """Writer of numbered events. Only a job's first process should enable it."""

    def __init__(
        self,
        folder: Optional[Path] = None,
        enabled: bool = True,
        descriptor: int = 1,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._file = _open(folder) if folder and enabled else None
        self._enabled, self._descriptor, self._clock = enabled, descriptor, clock
        self._sequence = 0
        self._inside_a_line = False
        self._lock = threading.Lock()

    def emit(self, kind: str, **fields: Any) -> None:
        """Write one event, unless a failure was written: it is the last event, although another thread may still train.

        Values that JSON cannot represent are converted: NumPy's numbers to numbers, others (such as paths) to text.
        """
        with self._lock:
            if self._enabled:
                self._emit(kind, fields)
                self._enabled = kind != "failure"

    def _emit(self, kind: str, fields: Dict[str, Any]) -> None:
        event: Dict[str, Any] = {"event": kind, "seq": self._sequence, "time": self._clock(), **fields}
        self._sequence += 1
        # In ASCII, a character is a byte, and all white space is blanks. Without blanks between them, values alone have
        # blanks.
        text = json.dumps(event, default=_to_json_value, separators=(",", ":"))
        # Buffered output of earlier `print` calls must come first.
        sys.stdout.flush()
        for line in _lines(event, text):
            self._write_line(line + "\n")
        if self._file is not None:
            os.write(self._file, (text + "\n").encode("utf-8"))

    def _write_line(self, line: str) -> None:
        """Write the line with one system call, so that lines of several processes do not mix.

        An interrupt can end a write halfway. The next event then starts on a new line.
        """
        rest = (("\n" if self._inside_a_line else "") + line).encode("utf-8")
        self._inside_a_line = True
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
        self._inside_a_line = False


def _lines(event: Dict[str, Any], text: str) -> Iterator[str]:
    """Yield the event as one line, or as parts of the form `sequence time number/count text`."""
    if len(text) <= MAX_CHARACTERS:
        yield EVENT_PREFIX + text
        return
    count = -(-len(text) // MAX_CHARACTERS)
    for at in range(count):
        piece = text[at * MAX_CHARACTERS : (at + 1) * MAX_CHARACTERS]
        if piece.endswith(" "):  # The toolkit strips blanks from the end of what it reads.
            piece = piece[:-1] + "\\u0020"
        yield "{}{} {!r} {}/{} {}".format(PART_PREFIX, event["seq"], event["time"], at + 1, count, piece)


def _open(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    return os.open(str(folder / FILE_NAME), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)


def _to_json_value(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)
