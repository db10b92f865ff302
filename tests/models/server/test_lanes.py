"""The turns of waiting examples, worked out by hand. Every example takes a second."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from models.server.lanes import Lane, PendingRequest

Add = Callable[[Lane, str, int], "asyncio.Future[Any]"]


@pytest.fixture
def add() -> Iterator[Add]:
    """Add a request whose examples are named a0, a1, ..."""
    loop = asyncio.new_event_loop()

    def added(lane: Lane, name: str, count: int) -> asyncio.Future[Any]:
        work = PendingRequest(count, loop.create_future())
        lane.add([(work, place, f"{name}{place}") for place in range(count)])  # type: ignore[misc]
        return work.done

    yield added
    loop.close()


def turn(lane: Lane) -> list[Any]:
    """Return the names of the examples of the next turn."""
    return [example for _, _, example in lane.take(lambda example: 1.0)]


def test_a_turn_ends_with_the_round_that_completes_a_request(add: Add) -> None:
    lane = Lane(max_examples=100, max_seconds=100, fill_seconds=100)
    add(lane, "a", 5)
    add(lane, "b", 2)
    add(lane, "c", 4)
    assert turn(lane) == ["a0", "b0", "c0", "a1", "b1", "c1"]
    assert turn(lane) == ["a2", "c2", "a3", "c3"]
    assert len(lane) == 1
    assert turn(lane) == ["a4"]
    assert turn(lane) == []


def test_a_turn_is_limited_by_time_and_the_next_request_continues(add: Add) -> None:
    lane = Lane(max_examples=100, max_seconds=3, fill_seconds=3)
    add(lane, "a", 4)
    add(lane, "b", 4)
    assert turn(lane) == ["a0", "b0", "a1"]
    assert turn(lane) == ["b1", "a2", "b2"]
    assert turn(lane) == ["a3", "b3"]


def test_further_rounds_have_a_shorter_time(add: Add) -> None:
    """The first round takes 4 of 5 seconds, so the second does not begin. A single request fills 2 seconds."""
    lane = Lane(max_examples=100, max_seconds=5, fill_seconds=2)
    for name in "abcd":
        add(lane, name, 2)
    assert [turn(lane), turn(lane)] == [["a0", "b0", "c0", "d0"], ["a1", "b1", "c1", "d1"]]
    add(lane, "e", 5)
    assert [turn(lane), turn(lane), turn(lane)] == [["e0", "e1"], ["e2", "e3"], ["e4"]]


def test_turns_are_longer_while_no_request_is_completed(add: Add) -> None:
    """Ten turns of 2 seconds, then 3 seconds, until a short request is completed."""
    lane = Lane(max_examples=100, max_seconds=3, fill_seconds=2)
    add(lane, "a", 40)
    assert [len(turn(lane)) for _ in range(12)] == [2] * 10 + [3] * 2
    add(lane, "b", 1)
    assert turn(lane) == ["a26", "b0"]
    assert turn(lane) == ["a27", "a28"]


def test_a_turn_is_limited_by_examples(add: Add) -> None:
    lane = Lane(max_examples=2, max_seconds=100, fill_seconds=100)
    add(lane, "a", 3)
    assert [turn(lane), turn(lane)] == [["a0", "a1"], ["a2"]]


def test_an_example_that_takes_longer_than_a_turn_runs_on_its_own(add: Add) -> None:
    lane = Lane(max_examples=9, max_seconds=0.5, fill_seconds=0.5)
    add(lane, "a", 2)
    assert [turn(lane), turn(lane), turn(lane)] == [["a0"], ["a1"], []]


def test_a_cancelled_request_is_dropped(add: Add) -> None:
    lane = Lane(max_examples=9, max_seconds=9, fill_seconds=9)
    add(lane, "a", 3).cancel()
    add(lane, "b", 1)
    assert turn(lane) == ["b0"]
    assert len(lane) == 0
