"""Read the last log lines of an endpoint's containers from CloudWatch Logs."""

from __future__ import annotations

from collections import deque
from datetime import datetime

from training.contract.errors import ServiceError
from training.services.sagemaker.aws_errors import translated
from training.services.sagemaker.clients import Clients

GROUP = "/aws/sagemaker/Endpoints/"
VARIANT = "AllTraffic"
"""Name of the only variant that we create. The names of log streams begin with it."""
MAX_PAGES = 10
LINES = 5
MAX_CHARACTERS = 300
"""Longest line, characters."""


def last_lines(clients: Clients, name: str, since: datetime) -> list[str]:
    """Return the last lines of an endpoint's log since a time. The list is empty if the log cannot be read.

    The lines are added to the message of a failure, so errors here are ignored.
    """
    query = {"logGroupName": f"{GROUP}{name}", "logStreamNamePrefix": f"{VARIANT}/"}
    lines: deque[str] = deque(maxlen=LINES)
    try:
        with translated(f"The log of endpoint {name}"):
            pages = clients.get("logs").get_paginator("filter_log_events")
            for at, page in enumerate(pages.paginate(**query, startTime=int(1000 * since.timestamp()))):
                lines += [each["message"].strip()[:MAX_CHARACTERS] for each in page["events"]]
                if at + 1 == MAX_PAGES:
                    break
    except ServiceError:
        return []
    return [line for line in lines if line]
