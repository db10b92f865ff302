"""FilterLogEvents on top of moto's logs, which do not support prefixes of stream names and never repeat an event."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from botocore.exceptions import ClientError

from tests.support.aws.api import ApiError, Response
from training.contract.service import LogPage


class Logs:
    """The account's logs."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.delay_seconds = 0.0
        """Time until a written line is returned."""
        self.repeats_events = False
        """True if each response returns every event twice."""
        self.starts_ms: list[int] = []
        """Start time of every query, in milliseconds since the epoch."""

    def operations(self) -> dict[str, Any]:
        return {"FilterLogEvents": self.filter}

    def filter(self, parameters: Mapping[str, Any]) -> Response:
        fields = dict(parameters)
        self.starts_ms.append(int(fields.get("startTime", 0)))
        prefix = fields.pop("logStreamNamePrefix")
        try:
            streams = self._client.get_paginator("describe_log_streams").paginate(
                logGroupName=fields["logGroupName"], logStreamNamePrefix=prefix
            )
            names = [stream["logStreamName"] for page in streams for stream in page["logStreams"]]
            # For moto, an empty list of names means all streams.
            response = self._client.filter_log_events(**fields, logStreamNames=names) if names else {"events": []}
        except ClientError as error:
            raise ApiError(error.response["Error"]["Code"], error.response["Error"]["Message"]) from error
        response.pop("ResponseMetadata", None)
        newest_ms = 1000 * (time.time() - self.delay_seconds)
        events = [each for each in response["events"] if not self.delay_seconds or each["timestamp"] <= newest_ms]
        return {**response, "events": events * (1 + self.repeats_events)}


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
