"""boto3 clients of one account and region, and boto3's errors as our own, with messages that say what to do.

There is one client per service, shared by the whole process.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, TypeVar

import boto3
from boto3.exceptions import Boto3Error
from botocore import exceptions
from botocore.config import Config
from botocore.exceptions import ClientError, ReadTimeoutError, UnknownRegionError
from botocore.loaders import Loader
from botocore.regions import EndpointResolver

from training.contract.errors import (
    AccessError,
    CredentialsError,
    InputError,
    JobExists,
    JobNotFound,
    QuotaError,
    ServiceError,
    Unreachable,
    first_line,
)
from training.contract.retry import CREDENTIALS_WAIT_MINUTES, RetryPolicy

Result = TypeVar("Result")

RENEWAL_SECONDS = 3.0
"""First pause before expired credentials are read again."""
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


def _without_retry_of_slow_calls(caught_exception: Exception | None = None, **_: Any) -> bool | None:
    """Return False for a request without an answer: a slow model would only get the same work again."""
    return False if isinstance(caught_exception, ReadTimeoutError) else None


class Clients:
    """Cache of boto3 clients. boto3 finds the credentials, the profile and the endpoints."""

    def __init__(
        self,
        region: str | None = None,
        profile: str | None = None,
        credentials_wait_minutes: float = CREDENTIALS_WAIT_MINUTES,
    ) -> None:
        self._profile, self._wait_minutes = profile, credentials_wait_minutes
        self._lock = threading.Lock()
        # boto3 itself reads only AWS_DEFAULT_REGION.
        self._open(region or os.environ.get("AWS_REGION") or None)
        if self.session.region_name is None:
            raise InputError("No AWS region is set: set AWS_REGION, or `region` in ~/.aws/config.")
        self.region: str = self.session.region_name

    def _open(self, region: str | None) -> None:
        """Open a session, which reads the credentials."""
        with translated("AWS"), self._lock:
            self.session = boto3.Session(region_name=region, profile_name=self._profile)
            self._client: Any = self.session.client
            self._clients: dict[tuple[str, str, bool], Any] = {}

    def with_credentials(self, what: str, call: Callable[[], Result]) -> Result:
        """Return `call()`, with errors about `what`. If the credentials have expired, wait for new ones and call again.

        Those in environment variables cannot change, so their error is raised immediately.
        """

        def translated_call() -> Result:
            with translated(what):
                return call()

        is_waiting = False

        def renew(_: float, __: Exception) -> None:
            nonlocal is_waiting
            if not is_waiting:
                wait = f"at most {self._wait_minutes:g} minutes. Running jobs continue."
                new = "new ones (`aws sso login`, `aws login` or new keys)"
                print(f"AWS credentials have expired. Waiting for {new} for {wait}", file=sys.stderr, flush=True)
            is_waiting = True
            with suppress(CredentialsError):
                self._open(self.region)

        policy = RetryPolicy(
            first_pause_seconds=RENEWAL_SECONDS, longest_pause_seconds=30.0, total_seconds=60 * self._wait_minutes
        )
        may_renew = self._profile is not None or "AWS_ACCESS_KEY_ID" not in os.environ
        transient = CredentialsError if may_renew else ()
        return policy.call(translated_call, is_transient=lambda error: isinstance(error, transient), on_failure=renew)

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


def head_bucket(clients: Clients, bucket: str, *allowed: int, **owner: str) -> tuple[int, str]:
    """Return (HTTP status, region) of a bucket: 200, 301 in another region, 404 if it is missing, or one `allowed`."""
    try:
        metadata = clients.get("s3").head_bucket(Bucket=bucket, **owner)["ResponseMetadata"]
    except ClientError as error:
        metadata = error.response["ResponseMetadata"]
        if metadata["HTTPStatusCode"] not in (301, 404, *allowed):
            raise
    own = "another region" if metadata["HTTPStatusCode"] == 301 else clients.region
    return metadata["HTTPStatusCode"], metadata.get("HTTPHeaders", {}).get("x-amz-bucket-region", own)


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


EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"}
UNKNOWN_KEY = {"UnrecognizedClientException", "InvalidClientTokenId", "InvalidAccessKeyId", "SignatureDoesNotMatch"}
DENIED = {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "ForbiddenException", "403"}
THROTTLED = {"ThrottlingException", "Throttling", "TooManyRequestsException", "RequestLimitExceeded", "SlowDown"}
MISSING = re.compile(
    r"Requested resource not found|Could not find (training job|(endpoint([ _]config(uration)?)?|model) [\"'])",
    re.IGNORECASE,
)
EXISTS = re.compile(r"Cannot create already existing", re.IGNORECASE)

CREDENTIAL_ERRORS = (
    *(exceptions.NoCredentialsError, exceptions.PartialCredentialsError, exceptions.ProfileNotFound),
    *(exceptions.CredentialRetrievalError, exceptions.LoginError, exceptions.UnknownCredentialError),
    *(exceptions.InvalidConfigError, exceptions.ConfigParseError, exceptions.ConfigNotFound),
    # Profiles that sign in with IAM Identity Center, and their tokens.
    *(exceptions.SSOError, exceptions.TokenRetrievalError),
    *(exceptions.NoAuthTokenError, exceptions.UnknownTokenProviderError),
)

RENEW = "renew them (`aws sso login`, `aws login`, or new keys) and run the same command again"


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Translate boto3's errors within this context; `what` names the object of the call, such as `Job demo-1`."""
    try:
        yield
    except exceptions.ClientError as error:
        raise response_error(what, error.response) from error
    except CREDENTIAL_ERRORS as error:
        raise CredentialsError(
            f"{what}: AWS credentials are missing or cannot be used ({first_line(error)}): run `aws configure` or "
            "`aws sso login`, or set AWS_PROFILE or aws.profile, then run the same command again."
        ) from error
    except exceptions.MissingDependencyException as error:
        raise AccessError(
            f"{what}: credentials of `aws login` need a package that is not installed: run `pip install "
            "'botocore[crt]'`, or use `aws sso login` or `aws configure`, then run the same command again."
        ) from error
    except (exceptions.ConnectionError, exceptions.HTTPClientError, exceptions.IncompleteReadError) as error:
        raise Unreachable(
            f"{what}: AWS does not answer ({first_line(error)}); check the region and the network."
        ) from error
    except exceptions.ParamValidationError as error:
        raise InputError(f"{what}: the request is malformed: {first_line(error)}.") from error
    except (exceptions.BotoCoreError, Boto3Error) as error:
        if isinstance(refused := error.__context__, exceptions.ClientError):  # boto3 raised it in place of the response
            raise response_error(what, refused.response) from error
        raise ServiceError(f"{what}: {first_line(error)}.") from error


def response_error(what: str, response: Mapping[str, Any]) -> ServiceError | InputError:
    code, message = str(response["Error"].get("Code")), str(response["Error"].get("Message", ""))
    # A proxy in between answers with a page, of which nothing helps.
    reason = "a web page" if "<html" in message.lower() else message.strip().rstrip(".") or code
    if code in EXPIRED:
        return CredentialsError(f"{what}: AWS credentials have expired: {RENEW}.")
    if code in UNKNOWN_KEY:
        return AccessError(f"{what}: AWS does not know the credentials ({reason}).")
    if code in DENIED:
        return AccessError(f"{what}: access is denied: {reason}. docs/aws.md lists the permissions that are needed.")
    if code == "ResourceLimitExceeded":
        return quota_error(what, reason)
    if code == "ResourceInUse" or EXISTS.search(message):
        return JobExists(f"{what} already exists at SageMaker.")
    if code in {"ResourceNotFound", "ResourceNotFoundException"} or MISSING.search(message):
        return JobNotFound(f"{what} does not exist at SageMaker in this region and account.")
    if code in THROTTLED:
        return Unreachable(f"{what}: AWS throttles the calls ({reason}); run the same command again later.")
    if code.startswith("ValidationException"):
        return InputError(f"{what}: SageMaker rejected the request: {reason}.")
    return ServiceError(f"{what}: {code}: {reason}.")


def quota_error(what: str, message: str) -> QuotaError:
    """Return the error for a quota. SageMaker's message states the quota, its limit and the requested amount."""
    name = re.search(r"service limit '([^']+)'", message)
    limit, amount = _number(r"' is (\d+)", message), _number(r"request delta of (\d+)", message)
    is_final = limit is not None and limit < (amount or 1)
    hint = (
        "request an increase under Service Quotas, SageMaker, or choose another instance type"
        if is_final
        else "all of it is in use; try again when other jobs have ended"
    )
    quota = name[1] if name else "unknown"
    allowed = "reached" if limit is None else str(limit)
    requested = f", and {amount} were requested" if is_final and limit else ""
    return QuotaError(
        f"{what}: the account's quota '{quota}' is {allowed}{requested}: {hint}.", quota, is_final=is_final
    )


def _number(pattern: str, message: str) -> int | None:
    match = re.search(pattern, message)
    return int(match[1]) if match else None
