"""A container's output as SageMaker's agent stores it in CloudWatch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError

from training.contract.service import LogPage

GROUP = "/aws/sagemaker/TrainingJobs"
MOST_EVENT_BYTES = 262_144 - 26
"""Of one event's message: PutLogEvents counts 26 bytes on top; a longer line becomes several events."""
MOST_CALL_BYTES, MOST_CALL_EVENTS = 1_048_576, 10_000
"""Of one call, the 26 bytes of each event included."""


class LogStream:
    """The stream of one machine; the account's group comes with its first line."""

    def __init__(self, logs: Any, name: str) -> None:
        self._logs, self._place = logs, {"logGroupName": GROUP, "logStreamName": name}
        self._made = False

    def put(self, page: LogPage, *, twice: bool = False) -> None:
        """Store further lines; `twice` as an agent does whose first call was answered with nothing."""
        if not self._made:
            _quietly(self._logs.create_log_group, logGroupName=GROUP)
            _quietly(self._logs.create_log_stream, **self._place)
            self._made = True
        for events in _calls(page):
            for _ in range(1 + twice):
                self._logs.put_log_events(**self._place, logEvents=events)


def _calls(page: LogPage) -> Iterator[list[dict[str, Any]]]:
    events: list[dict[str, Any]] = []
    room = MOST_CALL_BYTES
    for line, at in zip(page.lines, page.times, strict=True):
        for piece in _pieces(line):
            size = len(piece.encode()) + 26
            if size > room or len(events) == MOST_CALL_EVENTS:
                yield events
                events, room = [], MOST_CALL_BYTES
            events.append({"timestamp": int(1000 * at), "message": piece})
            room -= size
    if events:
        yield events


def _pieces(line: str) -> Iterator[str]:
    """Yield the line in pieces that an event holds: one character at least."""
    content = line.encode() or b" "
    for start in range(0, len(content), MOST_EVENT_BYTES):
        yield content[start : start + MOST_EVENT_BYTES].decode("utf-8", "replace")


def _quietly(call: Any, **fields: Any) -> None:
    try:
        call(**fields)
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceAlreadyExistsException":
            raise
