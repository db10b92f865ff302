"""The events of a job in a temporary file, so that memory does not grow with their number."""

from __future__ import annotations

import json
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from training.contract.events import Event


class EventCopy:
    """The events so far, in their order. The file has no name, so it disappears with the process."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as this object
        weakref.finalize(self, self._file.close)
        self._last: dict[str, Event] = {}

    def append(self, events: Iterable[Event]) -> None:
        """Add events."""
        self._file.seek(0, 2)
        for event in events:
            self._file.write(_line(event))
            self._last[event.kind] = event

    def last(self, kind: str) -> Event | None:
        """Return the last event of a kind, or None."""
        return self._last.get(kind)

    def __iter__(self) -> Iterator[Event]:
        position = 0
        while True:
            self._file.seek(position)  # another iteration, or an addition, may have moved it
            line = self._file.readline()
            if not line:
                return
            position = self._file.tell()
            yield _event(line)

    @contextmanager
    def as_file(self, name: str) -> Iterator[Path]:
        """Yield the path of a file called `name` with one JSON object per event. It is deleted afterwards."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            self._file.seek(0)
            with path.open("wb") as file:
                shutil.copyfileobj(self._file, file)
            yield path


def _line(event: Event) -> bytes:
    fields = {"event": event.kind, "seq": event.seq, "time": event.time, **event.fields}
    return json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _event(line: bytes) -> Event:
    fields = json.loads(line)
    return Event(kind=fields.pop("event"), seq=fields.pop("seq"), time=fields.pop("time"), fields=fields)
