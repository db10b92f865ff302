"""What an endpoint's containers said last, from CloudWatch Logs."""

from __future__ import annotations

from collections import deque
from datetime import datetime

from training.contract.errors import ServiceError
from training.services.sagemaker.aws_errors import translated
from training.services.sagemaker.clients import Clients

GROUP = "/aws/sagemaker/Endpoints/"
VARIANT = "AllTraffic"
"""Begins the name of each stream: that of the one variant that we make."""
MOST_PAGES = 10
LINES = 5
MOST_CHARACTERS = 300
"""Of a line."""


def last_lines(clients: Clients, name: str, since: datetime) -> list[str]:
    """Return the last lines of an endpoint's log since a time; none where it has no log, or it may not be read.

    They explain a failure that is told in any case, so nothing here is one.
    """
    wanted = {"logGroupName": f"{GROUP}{name}", "logStreamNamePrefix": f"{VARIANT}/"}
    lines: deque[str] = deque(maxlen=LINES)
    try:
        with translated(f"The log of endpoint {name}"):
            pages = clients.get("logs").get_paginator("filter_log_events")
            for at, page in enumerate(pages.paginate(**wanted, startTime=int(1000 * since.timestamp()))):
                lines += [each["message"].strip()[:MOST_CHARACTERS] for each in page["events"]]
                if at + 1 == MOST_PAGES:
                    break
    except ServiceError:
        return []
    return [line for line in lines if line]
