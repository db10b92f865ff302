"""Events that are longer than a line may be."""

from __future__ import annotations

import fcntl
import os
import random

from hypothesis import given
from hypothesis import strategies as st

from reporting.events import Events
from training.contract.events import EventReader


@given(st.text(min_size=0, max_size=10), st.integers(0, 20_000), st.randoms(use_true_random=False))
def test_a_long_event_comes_in_parts_that_any_reader_joins(said: str, times: int, shuffled: random.Random) -> None:
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 2**20)
    events = Events(descriptor=write, clock=lambda: 12.5)
    message = (said + " trainfare-part 0 1.5 1/2 é") * (1 + times // 30)
    events.emit("note", message=message)
    events.emit("note", message="trainfare-part 7 1.5 1/2 x")
    os.close(write)
    with os.fdopen(read, encoding="utf-8", newline="\n") as stream:
        lines = stream.read().split("\n")
    assert all(len(line.encode()) < 2**14 for line in lines)
    shuffled.shuffle(lines)
    reader = EventReader()
    found = [event for line in lines for event in reader.read([line])]
    assert {event.seq: event.fields["message"] for event in found} == {0: message, 1: "trainfare-part 7 1.5 1/2 x"}
    assert len(found) == 2
