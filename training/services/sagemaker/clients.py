"""boto3 clients of one account and region: one per service, shared by the whole process."""

from __future__ import annotations

import os
import threading
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ReadTimeoutError

from training.contract.errors import InputError
from training.services.sagemaker.aws_errors import translated
from training.services.sagemaker.credential_errors import remember_profile
from training.services.sagemaker.rate_limit import RateLimiter

QUICK_ATTEMPTS = 3
"""Number of attempts for the first call, so that a wrong region or a missing network is reported soon."""
DEFAULT_ATTEMPTS = 10
"""Number of attempts for all other calls, which take about two minutes. AWS_MAX_ATTEMPTS overrides it."""
CALLS_PER_SECOND = 8.0
BURST_CALLS = 8
RATE_LIMITED_SERVICES = ("sagemaker", "logs")
"""Services that allow about ten calls a second per account, shared by all its users."""

RUNTIME = "sagemaker-runtime"
"""Service that passes requests to endpoints."""
READ_SECONDS = {RUNTIME: 70}
"""Longest wait for an answer, in seconds, of services whose answers may take a minute. SageMaker ends a request after
60 s, and AWS recommends 70 s for clients (botocore 1.44.5, documentation of InvokeEndpoint)."""


def _without_retry_of_slow_calls(caught_exception: Exception | None = None, **_: Any) -> bool | None:
    """Return False for a request without an answer: a slow model would only get the same work again."""
    return False if isinstance(caught_exception, ReadTimeoutError) else None


def _default_attempts() -> int:
    text = os.environ.get("AWS_MAX_ATTEMPTS", "")
    return int(text) if text.isdigit() and int(text) > 0 else DEFAULT_ATTEMPTS


def _config(service: str, attempts: int) -> Config:
    # Adaptive: if AWS throttles, all calls of the process slow down together, with jitter between them.
    return Config(
        retries={"mode": "adaptive", "total_max_attempts": attempts},
        connect_timeout=10,
        read_timeout=READ_SECONDS.get(service, 60),
        max_pool_connections=32,
        user_agent_extra="trainfare",
    )


class Clients:
    """Cache of boto3 clients. boto3 finds the credentials, the profile and the endpoints."""

    def __init__(self, region: str | None = None, profile: str | None = None) -> None:
        remember_profile(profile)
        with translated("AWS"):
            # boto3 itself reads only AWS_DEFAULT_REGION.
            self.session = boto3.Session(
                region_name=region or os.environ.get("AWS_REGION") or None, profile_name=profile
            )
        if self.session.region_name is None:
            raise InputError("No AWS region is set: set AWS_REGION, or `region` in ~/.aws/config.")
        self.region: str = self.session.region_name
        self._client: Any = self.session.client
        self._clients: dict[tuple[str, str, bool], Any] = {}
        self._lock = threading.Lock()
        self._rate_limiter = RateLimiter(CALLS_PER_SECOND, BURST_CALLS)

    def get(self, service: str, region: str | None = None, *, quick: bool = False) -> Any:
        """Return the client of a service, such as `sagemaker`, in `region` or else in the default region.

        A `quick` client makes only a few attempts if the service does not answer.
        """
        key = service, region or self.region, quick
        attempts = QUICK_ATTEMPTS if quick else _default_attempts()
        # Creating a client is not thread-safe; using one is.
        with self._lock:
            if key not in self._clients:
                with translated(service):
                    client = self._client(service, region_name=key[1], config=_config(service, attempts))
                if service == RUNTIME:
                    client.meta.events.register_first(f"needs-retry.{RUNTIME}", _without_retry_of_slow_calls)
                if service in RATE_LIMITED_SERVICES:
                    client.meta.events.register("before-send", self._wait)
                self._clients[key] = client
            return self._clients[key]

    def _wait(self, **_: Any) -> None:
        self._rate_limiter.wait()
