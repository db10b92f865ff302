"""CloudWatch Logs as far as a follower asks, on moto's, which knows no prefix of streams and repeats no event."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from tests.support.aws.api import Answer, Refused


class Logs:
    """The account's logs."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.gives_twice = False
        """Whether each answer holds every event twice."""

    def operations(self) -> dict[str, Any]:
        return {"FilterLogEvents": self.filter}

    def filter(self, asked: Mapping[str, Any]) -> Answer:
        fields = dict(asked)
        prefix = fields.pop("logStreamNamePrefix")
        try:
            streams = self._client.get_paginator("describe_log_streams").paginate(
                logGroupName=fields["logGroupName"], logStreamNamePrefix=prefix
            )
            names = [stream["logStreamName"] for page in streams for stream in page["logStreams"]]
            # moto takes an empty list for all.
            answer = self._client.filter_log_events(**fields, logStreamNames=names) if names else {"events": []}
        except ClientError as error:
            raise Refused(error.response["Error"]["Code"], error.response["Error"]["Message"]) from error
        answer.pop("ResponseMetadata", None)
        return {**answer, "events": answer["events"] * (1 + self.gives_twice)}
