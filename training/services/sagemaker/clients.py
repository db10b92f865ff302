"""The clients of one account and region: one each, shared by everything in the process."""

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
"""Of the first call: whoever waits at the terminal hears soon that a region or the network is not there."""
PATIENT_TRIES = 10
"""Of every other; they take about two minutes. AWS's own variable AWS_MAX_ATTEMPTS sets another number."""
CALLS_PER_SECOND = 8.0
CALLS_AT_ONCE = 8
PACED = ("sagemaker", "logs")
"""Where an account's limits are of the order of ten calls a second, shared with all of its other users."""


def _patient_tries() -> int:
    given = os.environ.get("AWS_MAX_ATTEMPTS", "")
    return int(given) if given.isdigit() and int(given) > 0 else PATIENT_TRIES


def _config(tries: int) -> Config:
    # Adaptive: all of the process's calls slow down together once AWS says that they come too fast, with jitter
    # between them.
    return Config(
        retries={"mode": "adaptive", "total_max_attempts": tries},
        connect_timeout=10,
        read_timeout=60,
        max_pool_connections=32,
        user_agent_extra="trainfare",
    )


class Clients:
    """Makes each client once. Credentials, region, profile and endpoints are boto3's to find."""

    def __init__(self, region: str | None = None) -> None:
        with translated("AWS"):
            # boto3 itself knows AWS_DEFAULT_REGION alone.
            self.session = boto3.Session(region_name=region or os.environ.get("AWS_REGION") or None)
        if self.session.region_name is None:
            raise InputError("No AWS region is set: set AWS_REGION, or `region` in ~/.aws/config.")
        self.region: str = self.session.region_name
        self._client: Any = self.session.client
        self._made: dict[tuple[str, str, bool], Any] = {}
        self._lock = threading.Lock()
        self._pace = Pace(CALLS_PER_SECOND, CALLS_AT_ONCE)

    def get(self, service: str, region: str | None = None, *, quick: bool = False) -> Any:
        """Return the client of a service, such as `sagemaker`; of another region where one is given.

        One that is `quick` soon gives up asking what does not answer.
        """
        key = service, region or self.region, quick
        tries = QUICK_TRIES if quick else _patient_tries()
        # Making one is not safe among threads; using one is.
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
