"""The events of a job in a temporary file, so that memory does not grow with their number."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from tracking.recording.unnamed_file import UnnamedFile
from training.contract.events import Event


class EventCopy:
    """The events so far, in their order."""

    def __init__(self) -> None:
        self._lines = UnnamedFile()
        self._last: dict[str, Event] = {}
        self.as_file = self._lines.as_file

    def append(self, events: Iterable[Event]) -> None:
        """Add events."""
        added = list(events)
        self._lines.append(map(_line, added))
        self._last |= {event.kind: event for event in added}

    def last(self, kind: str) -> Event | None:
        """Return the last event of a kind, or None."""
        return self._last.get(kind)

    def __iter__(self) -> Iterator[Event]:
        return map(_event, self._lines)


def _line(event: Event) -> bytes:
    fields = {"event": event.kind, "seq": event.seq, "time": event.time, **event.fields}
    return json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace")


def _event(line: bytes) -> Event:
    fields = json.loads(line)
    return Event(kind=fields.pop("event"), seq=fields.pop("seq"), time=fields.pop("time"), fields=fields)
