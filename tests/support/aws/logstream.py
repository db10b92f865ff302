"""Store a container's output in CloudWatch like SageMaker's agent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError

from training.contract.service import LogPage

GROUP = "/aws/sagemaker/TrainingJobs"
MAX_EVENT_BYTES = 262_144 - 26
"""Size limit of an event's message: PutLogEvents adds 26 bytes to it. A longer line becomes several events."""
MAX_CALL_BYTES, MAX_CALL_EVENTS = 1_048_576, 10_000
"""Limits of one call, including the 26 bytes of each event."""


class LogStream:
    """The log stream of one instance. The log group is created with the first line."""

    def __init__(self, logs: Any, name: str) -> None:
        self._logs, self._names = logs, {"logGroupName": GROUP, "logStreamName": name}
        self._exists = False

    def put(self, page: LogPage, *, twice: bool = False) -> None:
        """Store lines; `twice` simulates an agent that retries because the first response was lost."""
        if not self._exists:
            _create(self._logs.create_log_group, logGroupName=GROUP)
            _create(self._logs.create_log_stream, **self._names)
            self._exists = True
        for events in _calls(page):
            for _ in range(1 + twice):
                self._logs.put_log_events(**self._names, logEvents=events)


def _calls(page: LogPage) -> Iterator[list[dict[str, Any]]]:
    events: list[dict[str, Any]] = []
    room = MAX_CALL_BYTES
    for line, at in zip(page.lines, page.times, strict=True):
        for piece in _pieces(line):
            size = len(piece.encode()) + 26
            if size > room or len(events) == MAX_CALL_EVENTS:
                yield events
                events, room = [], MAX_CALL_BYTES
            events.append({"timestamp": int(1000 * at), "message": piece})
            room -= size
    if events:
        yield events


def _pieces(line: str) -> Iterator[str]:
    """Yield the line in pieces that fit into an event. An empty line becomes a blank."""
    content = line.encode() or b" "
    for start in range(0, len(content), MAX_EVENT_BYTES):
        yield content[start : start + MAX_EVENT_BYTES].decode("utf-8", "replace")


def _create(call: Any, **fields: Any) -> None:
    try:
        call(**fields)
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceAlreadyExistsException":
            raise
