"""Write the job's events: one line each on standard output, and the same JSON in `events.jsonl`.

`training/contract/events.py` documents the events and reads them.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional

EVENT_PREFIX = "trainfare-event "
PART_PREFIX = "trainfare-part "
MAX_CHARACTERS = 4000
"""Longest event on one line; a longer one is split into parts. At four bytes a character, a part stays below the 16 KiB
that Docker passes on as one line, and far below CloudWatch's 256 KiB. Both cut longer lines."""
FILE_NAME = "events.jsonl"
HIDDEN = "(hidden)"


class Events:
    """Writer of numbered events. Of several processes, only the first writes."""

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
        self._secrets: List[str] = []

    def hide(self, secret: str) -> None:
        """Replace this secret in every event from now on, whatever message it appears in."""
        self._secrets.append(secret)

    def mask(self, text: str) -> str:
        """Return the text with all secrets replaced, in plain and in JSON spelling."""
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN).replace(json.dumps(secret)[1:-1], HIDDEN)
        return text

    def emit(self, kind: str, **fields: Any) -> None:
        """Write one event.

        Values unknown to JSON are converted: NumPy's numbers to numbers, anything else (such as a path) to text.
        """
        if self._enabled:
            with self._lock:
                self._emit(kind, fields)

    def _emit(self, kind: str, fields: Dict[str, Any]) -> None:
        event: Dict[str, Any] = {"event": kind, "seq": self._sequence, "time": self._clock(), **fields}
        self._sequence += 1
        text = self.mask(json.dumps(event, default=_plain, ensure_ascii=False))
        # Earlier output that `print` has buffered must come first.
        sys.stdout.flush()
        for line in _lines(event, text):
            self._write_line(line + "\n")
        if self._file is not None:
            os.write(self._file, (text + "\n").encode("utf-8"))

    def _write_line(self, line: str) -> None:
        """Write the line in as few system calls as possible, so that the output of several processes does not mix.

        An interrupt can end a write half-way. The next event then starts on a new line.
        """
        rest = (("\n" if self._inside_a_line else "") + line).encode("utf-8")
        self._inside_a_line = True
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
        self._inside_a_line = False


def _lines(event: Dict[str, Any], text: str) -> Iterator[str]:
    """Yield the event as one line, or in parts of the form "sequence time number/count text"."""
    if len(text) <= MAX_CHARACTERS:
        yield EVENT_PREFIX + text
        return
    count = -(-len(text) // MAX_CHARACTERS)
    for at in range(count):
        piece = text[at * MAX_CHARACTERS : (at + 1) * MAX_CHARACTERS]
        yield "{}{} {!r} {}/{} {}".format(PART_PREFIX, event["seq"], event["time"], at + 1, count, piece)


def _open(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    return os.open(str(folder / FILE_NAME), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)
