"""boto3 clients of one account and region, the account's number, the role of jobs, and the partition of a region.

There is one client per service, shared by the whole process.
"""

from __future__ import annotations

import os
import re
import threading
from functools import cache
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError, ReadTimeoutError, UnknownRegionError
from botocore.loaders import Loader
from botocore.regions import EndpointResolver

from training.contract.errors import AccessError, InputError
from training.services.sagemaker.aws_errors import remember_profile, translated

QUICK_ATTEMPTS = 3
"""Number of attempts for the first call, so that a wrong region or a missing network is reported soon."""
DEFAULT_ATTEMPTS = 10
"""Number of attempts for all other calls, which take about two minutes. AWS_MAX_ATTEMPTS overrides it."""
RUNTIME = "sagemaker-runtime"
"""Service that passes requests to endpoints."""
READ_SECONDS = {RUNTIME: 70}
"""Longest wait for an answer, in seconds, of services whose answers may take a minute. SageMaker ends a request after
60 s, and AWS recommends 70 s for clients (botocore 1.44.5, documentation of InvokeEndpoint)."""


ROLE_ARN = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:role/.+")
ASSUMED = re.compile(r"arn:aws[a-z-]*:sts::\d{12}:assumed-role/([^/]+)/")

COMMERCIAL = "aws"
PRICE_LIST_REGIONS = {COMMERCIAL: "us-east-1"}
"""Region of the price list in partitions that have several."""


def _without_retry_of_slow_calls(caught_exception: Exception | None = None, **_: Any) -> bool | None:
    """Return False for a request without an answer: a slow model would only get the same work again."""
    return False if isinstance(caught_exception, ReadTimeoutError) else None


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

    def get(self, service: str, region: str | None = None, *, quick: bool = False) -> Any:
        """Return the client of a service, such as `sagemaker`, in `region` or else in the default region.

        A `quick` client makes only a few attempts if the service does not answer.
        """
        key = service, region or self.region, quick
        own_attempts = os.environ.get("AWS_MAX_ATTEMPTS", "")
        default_attempts = int(own_attempts) if own_attempts.isdigit() and int(own_attempts) > 0 else DEFAULT_ATTEMPTS
        # Adaptive: if AWS throttles, all calls of the process slow down together, with jitter between them.
        config = Config(
            retries={"mode": "adaptive", "total_max_attempts": QUICK_ATTEMPTS if quick else default_attempts},
            connect_timeout=10,
            read_timeout=READ_SECONDS.get(service, 60),
            max_pool_connections=32,
            user_agent_extra="trainfare",
        )
        # Creating a client is not thread-safe; using one is.
        with self._lock:
            if key not in self._clients:
                with translated(service):
                    client = self._client(service, region_name=key[1], config=config)
                if service == RUNTIME:
                    client.meta.events.register_first(f"needs-retry.{RUNTIME}", _without_retry_of_slow_calls)
                self._clients[key] = client
            return self._clients[key]


def account_of(clients: Clients) -> str:
    """Return the account's number. Raises AccessError if no valid credentials exist."""
    with translated("AWS"):
        return str(clients.get("sts", quick=True).get_caller_identity()["Account"])


def role_of(clients: Clients, role: str | None) -> str:
    """Return the ARN of the role for jobs: `role` (an ARN or a name), by default the role that this process runs as.

    Inside SageMaker (a notebook, Studio, a job) this process runs as a role that jobs may assume. Elsewhere `role` is
    required, because SageMaker is rarely allowed to assume a user's IAM role.
    """
    if role and ROLE_ARN.fullmatch(role):
        return role
    if role:
        return _by_name(clients, role)
    with translated("AWS"):
        caller = str(clients.get("sts").get_caller_identity()["Arn"])
    assumed = ASSUMED.match(caller)
    if assumed and "sagemaker" in caller.lower():
        return _by_name(clients, assumed[1])
    raise InputError(
        "aws.role is not set, and this process does not run inside SageMaker: set aws.role to a role that SageMaker "
        "may assume, or set a role in the SageMaker SDK's config.yaml (docs/aws.md)."
    )


def _by_name(clients: Clients, name: str) -> str:
    with translated(f"Role {name}"):
        try:
            return str(clients.get("iam").get_role(RoleName=name.rpartition("/")[2])["Role"]["Arn"])
        except ClientError as error:
            if error.response["Error"]["Code"] == "NoSuchEntity":
                raise AccessError(
                    f"Role {name} does not exist in this account: set aws.role to the name or ARN of a role."
                ) from error
            raise


@cache
def _resolver() -> EndpointResolver:
    return EndpointResolver(Loader().load_data("endpoints"))


def partition_of(region: str) -> str:
    """Return the partition of a region, such as `aws-cn`. A region that botocore does not know counts as `aws`."""
    try:
        return str(_resolver().get_partition_for_region(region))
    except UnknownRegionError:
        return COMMERCIAL


def price_list_region(region: str) -> str | None:
    """Return the region of the price list API in the partition of a region; None if it has no price list."""
    partition = partition_of(region)
    listed = sorted(_resolver().get_available_endpoints("api.pricing", partition))
    return PRICE_LIST_REGIONS.get(partition, listed[0] if listed else None)
