"""The copy of a job's events."""

from __future__ import annotations

import json
import math
from itertools import islice

from tracking.recording.job_copies import EventCopy
from training.contract.events import Event


def event(seq: int, kind: str = "metric", **fields: object) -> Event:
    return Event(kind=kind, seq=seq, time=1_700_000_000.25 + seq, fields=fields)


def test_events_come_back_as_they_were() -> None:
    events = [event(0, "start", device={"count": 2}), event(1, values={"loss": 0.1 + 0.2, "é": 1}), event(2, "note")]
    copy = EventCopy()
    copy.append(events[:2])
    assert list(copy) == events[:2]
    copy.append(events[2:])
    assert list(copy) == events
    assert list(copy) == events


def test_an_iteration_goes_on_after_others_have_read_and_written() -> None:
    copy = EventCopy()
    copy.append(event(seq) for seq in range(3))
    first = iter(copy)
    assert [each.seq for each in islice(first, 2)] == [0, 1]
    assert len(list(copy)) == 3
    copy.append([event(3)])
    assert [each.seq for each in first] == [2, 3]


def test_values_that_are_no_numbers_are_kept() -> None:
    copy = EventCopy()
    copy.append([event(0, values={"loss": math.nan, "low": -math.inf})])
    values = next(iter(copy)).fields["values"]
    assert math.isnan(values["loss"])
    assert values["low"] == -math.inf


def test_the_last_event_of_a_kind_is_known() -> None:
    copy = EventCopy()
    assert copy.last("result") is None
    copy.append([event(0, "result", steps=1), event(1, "result", steps=2), event(2)])
    assert copy.last("result") == event(1, "result", steps=2)


def test_the_file_has_one_object_per_event() -> None:
    copy = EventCopy()
    copy.append([event(0, "note", message="two\nlines"), event(1)])
    with copy.as_file("events.jsonl") as path:
        lines = path.read_text("utf-8").splitlines()
    assert path.name == "events.jsonl"
    assert json.loads(lines[0]) == {"event": "note", "seq": 0, "time": 1_700_000_000.25, "message": "two\nlines"}
    assert len(lines) == 2
