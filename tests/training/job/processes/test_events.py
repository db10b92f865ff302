"""Events are written as lines, and long events as several parts."""

from __future__ import annotations

import fcntl
import json
import os
import random
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from training.contract.events import EventReader, parse_line
from training.job.processes.reporting import Events

PIPE_BUF = 4096
"""Number of bytes that Linux writes into a pipe at once."""


@given(st.text(min_size=0, max_size=10), st.integers(0, 20_000), st.randoms(use_true_random=False))
def test_a_long_event_is_split_into_parts_that_the_reader_joins(text: str, times: int, shuffled: random.Random) -> None:
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 2**20)
    events = Events(descriptor=write, clock=lambda: 12.5)
    message = (text + " trainfare-part 0 1.5 1/2 é  ") * (1 + times // 30)
    events.emit("note", message=message)
    events.emit("note", message="trainfare-part 7 1.5 1/2 x")
    os.close(write)
    with os.fdopen(read, encoding="utf-8", newline="\n") as stream:
        lines = stream.read().split("\n")
    assert all(len(line.encode()) < PIPE_BUF and line == line.strip() for line in lines)
    shuffled.shuffle(lines)
    reader = EventReader()
    received = [event for line in lines for event in reader.read([line])]
    assert {event.seq: event.fields["message"] for event in received} == {0: message, 1: "trainfare-part 7 1.5 1/2 x"}
    assert len(received) == 2


def test_events_are_read_as_they_were_written(tmp_path: Path) -> None:
    read, write = os.pipe()
    events = Events(tmp_path, descriptor=write, clock=lambda: 12.5)
    events.emit("note", message="é\nnew line")
    events.emit("metric", step=1, values={"loss": np.float32(0.5), "n": np.int64(3)}, folder=Path("/x"))
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as stream:
        first, second = (parse_line(line) for line in stream.read().splitlines())
    assert first is not None
    assert (first.kind, first.seq, first.time, first.fields) == ("note", 0, 12.5, {"message": "é\nnew line"})
    assert second is not None
    assert second.fields == {"step": 1, "values": {"loss": 0.5, "n": 3}, "folder": "/x"}
    assert [json.loads(line)["seq"] for line in (tmp_path / "events.jsonl").read_text().splitlines()] == [0, 1]


def test_a_failure_is_the_last_event(tmp_path: Path) -> None:
    """Another thread may still train while the job ends."""
    events = Events(tmp_path, descriptor=os.open(os.devnull, os.O_WRONLY))
    for kind in ("note", "failure", "metric"):
        events.emit(kind)
    written = [json.loads(line)["event"] for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert written == ["note", "failure"]
    Events(tmp_path / "disabled", enabled=False, descriptor=-1).emit("note", message="x")
    assert not (tmp_path / "disabled").exists()
