"""What the job says: one line an event on the standard output, and the same in `events.jsonl`.

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
MOST_CHARACTERS = 4000
"""Of an event on one line; a longer one is told in parts. At four bytes each they are less than the 16 KiB that Docker
hands on as a line, and far less than the 256 KiB that CloudWatch takes: beyond either a line is cut."""
FILE_NAME = "events.jsonl"
HIDDEN = "(hidden)"


class Events:
    """Numbers and writes events. Of several processes only the first speaks."""

    def __init__(
        self,
        folder: Optional[Path] = None,
        speaks: bool = True,
        descriptor: int = 1,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._file = _open(folder) if folder and speaks else None
        self._speaks, self._descriptor, self._clock = speaks, descriptor, clock
        self._sequence = 0
        self._inside_a_line = False
        self._lock = threading.Lock()
        self._secrets: List[str] = []

    def hide(self, secret: str) -> None:
        """See to it that no event shows the secret, whatever message it comes in."""
        self._secrets.append(secret)

    def masked(self, text: str) -> str:
        """Return the text without the secrets, as they are and as JSON spells them."""
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN).replace(json.dumps(secret)[1:-1], HIDDEN)
        return text

    def emit(self, kind: str, **fields: Any) -> None:
        """Write one event; values that JSON does not know (NumPy's numbers, paths) are written as text or number."""
        if self._speaks:
            with self._lock:
                self._emit(kind, fields)

    def _emit(self, kind: str, fields: Dict[str, Any]) -> None:
        event: Dict[str, Any] = {"event": kind, "seq": self._sequence, "time": self._clock(), **fields}
        self._sequence += 1
        text = self.masked(json.dumps(event, default=_plain, ensure_ascii=False))
        # What `print` still holds back came first.
        sys.stdout.flush()
        for line in _lines(event, text):
            self._write_line(line + "\n")
        if self._file is not None:
            os.write(self._file, (text + "\n").encode("utf-8"))

    def _write_line(self, line: str) -> None:
        """Write in one call, so that lines of several processes cannot tear each other.

        An interrupt may raise out of a write; the next event then begins on a new line.
        """
        rest = (("\n" if self._inside_a_line else "") + line).encode("utf-8")
        self._inside_a_line = True
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
        self._inside_a_line = False


def _lines(event: Dict[str, Any], text: str) -> Iterator[str]:
    """Yield the event as one line, or in parts that tell whose they are: number, time, place among how many, text."""
    if len(text) <= MOST_CHARACTERS:
        yield EVENT_PREFIX + text
        return
    count = -(-len(text) // MOST_CHARACTERS)
    for at in range(count):
        piece = text[at * MOST_CHARACTERS : (at + 1) * MOST_CHARACTERS]
        yield "{}{} {!r} {}/{} {}".format(PART_PREFIX, event["seq"], event["time"], at + 1, count, piece)


def _open(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    return os.open(str(folder / FILE_NAME), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)
