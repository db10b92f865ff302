"""Copies of events and logs: complete on disk, and bounded in memory."""

from __future__ import annotations

import json
import math

from tracking.recording.recorder import TAIL_CHARACTERS, TAIL_LINES, EventCopy, LogCopy
from training.contract.events import Event


def event(seq: int, kind: str = "metric", **fields: object) -> Event:
    return Event(kind=kind, seq=seq, time=1_700_000_000.25 + seq, fields=fields)


def test_events_come_back_as_they_were_while_others_read_and_write() -> None:
    events = [event(0, "start", device={"count": 2}), event(1, values={"loss": 0.1 + 0.2, "é": 1}), event(2, "result")]
    copy = EventCopy()
    assert copy.result is None
    copy.append(events[:2])
    first = iter(copy)
    assert next(first) == events[0]
    copy.append(events[2:])
    assert list(copy) == events
    assert list(first) == events[1:]
    copy.append([event(3, "result", message="two\nlines", values={"loss": math.nan, "low": -math.inf})])
    assert copy.result not in (None, events[2])
    assert math.isnan(list(copy)[-1].fields["values"]["loss"])
    lines = copy.path.read_text("utf-8").splitlines()
    assert copy.path.name == "events.jsonl"
    assert json.loads(lines[2]) == {"event": "result", "seq": 2, "time": 1_700_000_002.25}
    assert len(lines) == 4


def test_a_copy_has_all_lines() -> None:
    log = LogCopy()
    log.append(["one", "", "zwei ü\r"])
    log.append(["x" * 3_000_000])
    log.append([])
    path = log.path
    assert path.name == "log.txt"
    assert path.read_bytes().decode() == "one\n\nzwei ü\r\n" + "x" * 3_000_000 + "\n"
    log.append(["later"])
    assert path.read_bytes().endswith(b"x\nlater\n")
    del log
    assert not path.parent.exists()


def test_the_tail_is_bounded() -> None:
    log = LogCopy()
    assert log.tail(20) == []
    log.append([f"{number} " + "x" * TAIL_CHARACTERS for number in range(TAIL_LINES + 5)])
    assert len(log.tail()) == TAIL_LINES
    assert [line.split()[0] for line in log.tail(2)] == ["1003", "1004"]
    assert {len(line) for line in log.tail()} == {TAIL_CHARACTERS}
