"""Jobs and their logs on SageMaker: each line once, even if responses are late, repeated, out of order or lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.aws.account import Account
from tests.support.services.following import ended, follow, of_job
from tests.support.services.harness import SageMakerHarness
from tracking.recording.script_log import ScriptLogReader
from training.services.launcher import Job, submit
from training.services.sagemaker.service import log_page, read_cursor


def event(number: int, at_ms: int, message: str = "") -> dict[str, Any]:
    return {"eventId": f"{number:05}", "timestamp": at_ms, "message": message or f"line {number}"}


def test_lines_are_ordered_by_time() -> None:
    log = log_page([event(2, 2000), event(1, 1000, "two\nlines\n")], read_cursor(None))
    assert log.lines == ["two", "lines", "line 2"]
    assert log.times == [1.0, 1.0, 2.0]


def test_lines_with_equal_times_are_all_kept_and_ordered_by_id() -> None:
    assert log_page([event(1, 1000, "same"), event(2, 1000, "same")], read_cursor(None)).lines == ["same", "same"]
    events = [{"eventId": str(number), "timestamp": 1000, "message": str(number)} for number in (10, 9, 100)]
    assert log_page(events, read_cursor(None)).lines == ["9", "10", "100"]


def test_lines_from_all_but_the_first_instance_start_with_its_name() -> None:
    logs = {"algo-1": event(1, 1000, "loss 0.5"), "algo-2": event(2, 1001, "loss 0.5\nbye"), "algo-12": event(3, 1002)}
    events = [{**each, "logStreamName": f"my-job/{instance}-1795281360"} for instance, each in logs.items()]
    lines = log_page(events, read_cursor(None)).lines
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
        log = log_page(returned, cursor)
        lines += list(log.lines)
        cursor = read_cursor(log.cursor)
    assert sorted(lines) == sorted(f"line {number}" for number in range(len(deliveries)))


@pytest.fixture
def harness(account: Account, tmp_path: Path) -> SageMakerHarness:
    return SageMakerHarness(tmp_path, account)


def test_a_lost_response_does_not_start_a_second_job(harness: SageMakerHarness, account: Account) -> None:
    """The job was created, but the response was lost: the next submission attaches to it."""
    request = harness.request("print('once')")
    harness.service.create(request)
    description, lines = ended(submit(harness.service, request))
    assert (description["TrainingJobStatus"], lines) == ("Completed", ["once"])
    assert account.jobs.names() == ["job"]
    # With a start time of 0, CloudWatch searches the logs of all jobs of the account. An hour covers wrong clocks.
    created_ms = 1000 * description["CreationTime"].timestamp()
    assert account.logs.starts_ms
    assert all(created_ms - 2 * 3_600_000 < start for start in account.logs.starts_ms)


def test_a_line_that_is_stored_after_the_end_is_read(harness: SageMakerHarness, account: Account) -> None:
    """The line is older than the part of the log that each page rereads, so the whole log is reread at the end."""
    job = submit(harness.service, harness.request("print('first'); print('last')"))
    description, lines = ended(job)
    assert lines == ["first", "last"]
    logs, group = account.clients["logs"], "/aws/sagemaker/TrainingJobs"
    stream = logs.describe_log_streams(logGroupName=group)["logStreams"][0]["logStreamName"]
    at_ms = int(1000 * (description["CreationTime"].timestamp() - 1800))

    def late(seconds: float) -> None:
        nonlocal is_stored
        if not is_stored:
            is_stored = True
            event = {"timestamp": at_ms, "message": "half an hour ago"}
            logs.put_log_events(logGroupName=group, logStreamName=stream, logEvents=[event])

    is_stored = False
    updates = list(follow(Job(harness.service, "job"), sleep=late))
    assert of_job(updates[0].lines) == ["first", "last"]
    assert (updates[-1].is_whole, of_job(updates[-1].lines)) == (True, ["half an hour ago", "first", "last"])
