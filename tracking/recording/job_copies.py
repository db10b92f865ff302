"""Copies of a job's events and log in temporary files without names, so that memory does not grow with them."""

from __future__ import annotations

import json
import shutil
import tempfile
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from training.contract.events import Event
from training.contract.failures import repair_last_traceback


class UnnamedFile:
    """Lines on disk, so that memory does not grow with them."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as this object
        weakref.finalize(self, self._file.close)

    def append(self, lines: Iterable[bytes]) -> None:
        """Add lines, without their line ends."""
        self._file.seek(0, 2)
        self._file.writelines(line + b"\n" for line in lines)

    def __iter__(self) -> Iterator[bytes]:
        position = 0
        while True:
            self._file.seek(position)  # another iteration, or an addition, may have moved it
            line = self._file.readline()
            if not line:
                return
            position = self._file.tell()
            yield line

    @contextmanager
    def as_file(self, name: str) -> Iterator[Path]:
        """Yield the path of a file called `name` with all lines. It is deleted afterwards."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            self._file.seek(0)
            with path.open("wb") as file:
                shutil.copyfileobj(self._file, file)
            yield path


class EventCopy:
    """The events so far, in their order."""

    def __init__(self) -> None:
        self._lines = UnnamedFile()
        self._last: dict[str, Event] = {}
        self.as_file = self._lines.as_file

    def append(self, events: Iterable[Event]) -> None:
        """Add events."""
        added = list(events)
        fields = ({"event": each.kind, "seq": each.seq, "time": each.time, **each.fields} for each in added)
        self._lines.append(json.dumps(each, ensure_ascii=False).encode("utf-8", "replace") for each in fields)
        self._last |= {event.kind: event for event in added}

    def last(self, kind: str) -> Event | None:
        """Return the last event of a kind, or None."""
        return self._last.get(kind)

    def __iter__(self) -> Iterator[Event]:
        for line in self._lines:
            fields = json.loads(line)
            yield Event(kind=fields.pop("event"), seq=fields.pop("seq"), time=fields.pop("time"), fields=fields)


TAIL_LINES = 1_000
"""Lines that are kept in memory, which hold the traceback of a job that fails."""
TAIL_CHARACTERS = 2_000
"""Beginning of each of these lines that is kept."""


class LogCopy:
    """The lines of a log so far."""

    def __init__(self) -> None:
        self._lines = UnnamedFile()
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self.as_file = self._lines.as_file

    def append(self, lines: Sequence[str]) -> None:
        """Add lines."""
        self._lines.append(line.encode("utf-8", "replace") for line in lines)
        self._tail.extend(line[:TAIL_CHARACTERS] for line in lines[-TAIL_LINES:])

    def tail(self, count: int = TAIL_LINES) -> list[str]:
        """Return the last `count` lines. Long ones are cut, and a traceback that came in pieces is whole."""
        return repair_last_traceback(list(self._tail))[-count:]
