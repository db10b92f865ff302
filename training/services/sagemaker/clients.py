"""The boto3 clients of one account and region, one for each service, shared by the whole process."""

from __future__ import annotations

import os
import threading
from typing import Any

import boto3
from botocore.config import Config

from training.contract.errors import InputError
from training.services.sagemaker.aws_errors import translated
from training.services.sagemaker.rate_limit import Pace

QUICK_TRIES = 3
"""Attempts of the first call, so that a wrong region or a missing network is reported soon."""
PATIENT_TRIES = 10
"""Attempts of every other call; they take about two minutes. AWS's variable AWS_MAX_ATTEMPTS overrides the number."""
CALLS_PER_SECOND = 8.0
CALLS_AT_ONCE = 8
PACED = ("sagemaker", "logs")
"""Services that allow an account about ten calls a second, shared by all its users."""


def _patient_tries() -> int:
    text = os.environ.get("AWS_MAX_ATTEMPTS", "")
    return int(text) if text.isdigit() and int(text) > 0 else PATIENT_TRIES


def _config(tries: int) -> Config:
    # Adaptive: once AWS throttles, all calls of the process slow down together, with jitter between them.
    return Config(
        retries={"mode": "adaptive", "total_max_attempts": tries},
        connect_timeout=10,
        read_timeout=60,
        max_pool_connections=32,
        user_agent_extra="trainfare",
    )


class Clients:
    """Cache of boto3 clients. boto3 finds the credentials, the profile and the endpoints."""

    def __init__(self, region: str | None = None) -> None:
        with translated("AWS"):
            # boto3 itself reads only AWS_DEFAULT_REGION.
            self.session = boto3.Session(region_name=region or os.environ.get("AWS_REGION") or None)
        if self.session.region_name is None:
            raise InputError("No AWS region is set: set AWS_REGION, or `region` in ~/.aws/config.")
        self.region: str = self.session.region_name
        self._client: Any = self.session.client
        self._made: dict[tuple[str, str, bool], Any] = {}
        self._lock = threading.Lock()
        self._pace = Pace(CALLS_PER_SECOND, CALLS_AT_ONCE)

    def get(self, service: str, region: str | None = None, *, quick: bool = False) -> Any:
        """Return the client of a service, such as `sagemaker`, in this region or another.

        A `quick` client gives up soon when the service does not answer.
        """
        key = service, region or self.region, quick
        tries = QUICK_TRIES if quick else _patient_tries()
        # Creating a client is not thread-safe; using one is.
        with self._lock:
            if key not in self._made:
                with translated(service):
                    client = self._client(service, region_name=key[1], config=_config(tries))
                if service in PACED:
                    client.meta.events.register("before-send", self._wait)
                self._made[key] = client
            return self._made[key]

    def _wait(self, **_: Any) -> None:
        self._pace.wait()
