"""Pages of a CloudWatch log: each line once, even if events are late, repeated or out of order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracking.recording.script_log import ScriptLogReader
from training.contract.errors import ServiceError
from training.services.sagemaker.service import LATE_SECONDS, page, read_cursor


def event(number: int, at_ms: int, message: str = "") -> dict[str, Any]:
    return {"eventId": f"{number:05}", "timestamp": at_ms, "message": message or f"line {number}"}


def test_lines_are_ordered_by_time() -> None:
    log = page([event(2, 2000), event(1, 1000, "two\nlines\n")], read_cursor(None))
    assert log.lines == ["two", "lines", "line 2"]
    assert log.times == [1.0, 1.0, 2.0]


def test_repeated_events_are_dropped() -> None:
    first = page([event(1, 1000), event(2, 2000)], read_cursor(None))
    second = page([event(1, 1000), event(2, 2000), event(3, 2000)], read_cursor(first.cursor))
    assert second.lines == ["line 3"]
    assert page([event(3, 2000)], read_cursor(second.cursor)).lines == []


def test_late_events_are_read() -> None:
    first = page([event(2, 60_000)], read_cursor(None))
    assert read_cursor(first.cursor).from_ms == 60_000 - 1000 * LATE_SECONDS
    assert page([event(1, 30_000), event(2, 60_000)], read_cursor(first.cursor)).lines == ["line 1"]


def test_equal_lines_with_equal_times_are_both_kept() -> None:
    assert page([event(1, 1000, "same"), event(2, 1000, "same")], read_cursor(None)).lines == ["same", "same"]


def test_lines_with_equal_times_are_ordered_by_id() -> None:
    events = [{"eventId": str(number), "timestamp": 1000, "message": str(number)} for number in (10, 9, 100)]
    assert page(events, read_cursor(None)).lines == ["9", "10", "100"]


def test_lines_from_all_but_the_first_instance_start_with_its_name() -> None:
    logs = {"algo-1": event(1, 1000, "loss 0.5"), "algo-2": event(2, 1001, "loss 0.5\nbye"), "algo-12": event(3, 1002)}
    events = [{**each, "logStreamName": f"my-job/{instance}-1795281360"} for instance, each in logs.items()]
    lines = page(events, read_cursor(None)).lines
    assert lines == ["loss 0.5", "[algo-2] loss 0.5", "[algo-2] bye", "[algo-12] line 3"]
    assert [event.fields["values"] for event in ScriptLogReader({"loss": "loss (.+)"}).read(lines, [1.0] * 4)] == [
        {"loss": 0.5}
    ]


@given(
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 5)), max_size=30),
)
def test_every_line_is_read_once_in_any_order_of_delivery(deliveries: list[tuple[int, int]]) -> None:
    """Each event is (time in ms, round in which it is stored). All are stored within the allowed delay."""
    cursor, lines = read_cursor(None), []
    for round_number in range(6):
        stored = [event(number, at) for number, (at, stored_in) in enumerate(deliveries) if stored_in <= round_number]
        returned = [each for each in stored if each["timestamp"] >= cursor.from_ms]
        log = page(returned, cursor)
        lines += list(log.lines)
        cursor = read_cursor(log.cursor)
    assert sorted(lines) == sorted(f"line {number}" for number in range(len(deliveries)))


@pytest.mark.parametrize("text", ["", "x", "[1]", '{"a": 1}', "[null, []]"])
def test_an_invalid_cursor_is_rejected(text: str) -> None:
    with pytest.raises(ServiceError, match="is not a cursor of the SageMaker service"):
        read_cursor(text)
