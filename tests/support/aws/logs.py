"""FilterLogEvents on top of moto's logs, which do not support prefixes of stream names and never repeat an event."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from tests.support.aws.api import ApiError, Response


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
