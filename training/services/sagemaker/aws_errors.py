"""Translate boto3's errors into our own, with messages that say what to do."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from boto3.exceptions import Boto3Error
from botocore import exceptions

from training.contract.errors import (
    AccessError,
    InputError,
    JobExists,
    JobNotFound,
    QuotaError,
    ServiceError,
    Unreachable,
)

EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"}
UNKNOWN_KEY = {"UnrecognizedClientException", "InvalidClientTokenId", "InvalidAccessKeyId", "SignatureDoesNotMatch"}
DENIED = {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "ForbiddenException", "403"}
THROTTLED = {"ThrottlingException", "Throttling", "TooManyRequestsException", "RequestLimitExceeded", "SlowDown"}
MISSING = re.compile(
    r"Requested resource not found|Could not find (training job|(endpoint([ _]config(uration)?)?|model) [\"'])",
    re.IGNORECASE,
)
EXISTS = re.compile(r"Cannot create already existing", re.IGNORECASE)

CONFIGURATION_ERRORS = (
    *(exceptions.InvalidConfigError, exceptions.ConfigParseError),
    *(exceptions.ConfigNotFound, exceptions.UnknownCredentialError),
)
CREDENTIAL_ERRORS = (
    *(exceptions.NoCredentialsError, exceptions.PartialCredentialsError, exceptions.ProfileNotFound),
    *(exceptions.CredentialRetrievalError, exceptions.LoginError),
    # Profiles that sign in with IAM Identity Center, and their tokens.
    *(exceptions.SSOError, exceptions.TokenRetrievalError),
    *(exceptions.NoAuthTokenError, exceptions.UnknownTokenProviderError),
    *CONFIGURATION_ERRORS,
)

RENEW = "renew them (`aws sso login`, or new keys) and run the same command again"


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Translate boto3's errors within this context; `what` names the object of the call, such as `Job demo-1`."""
    try:
        yield
    except exceptions.ClientError as error:
        raise response_error(what, error.response) from error
    except CREDENTIAL_ERRORS as error:
        raise credential_error(what, error) from error
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
    """Return our error for an error response of AWS."""
    code, message = str(response["Error"].get("Code")), str(response["Error"].get("Message", ""))
    # A proxy in between answers with a page, of which nothing helps.
    reason = "a web page" if "<html" in message.lower() else message.strip().rstrip(".") or code
    if code in EXPIRED:
        return AccessError(f"{what}: AWS credentials have expired: {RENEW}.")
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


def credential_error(what: str, error: exceptions.BotoCoreError) -> AccessError:
    """Return our error for one of `CREDENTIAL_ERRORS`. `what` names the object of the call."""
    profile = _Profile.name or os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE") or "default"
    if isinstance(error, exceptions.NoCredentialsError):
        problem = "AWS credentials are missing"
        remedy = "run `aws configure` or `aws sso login`, or set AWS_PROFILE. Nothing was started"
    elif isinstance(error, exceptions.PartialCredentialsError):
        problem = "AWS credentials are incomplete"
        remedy = "set both the access key and the secret key, or neither"
    elif isinstance(error, exceptions.ProfileNotFound):
        problem = f"the AWS profile {profile} does not exist"
        remedy = "set aws.profile or AWS_PROFILE to a profile that `aws configure list-profiles` shows"
    elif isinstance(error, exceptions.CredentialRetrievalError):
        problem = f"AWS credentials of profile {profile} could not be retrieved"
        source = "`credential_process`" if error.kwargs.get("provider") == "custom-process" else "source of credentials"
        remedy = f"check the {source} of this profile in ~/.aws/config, then run the same command again"
    elif isinstance(error, CONFIGURATION_ERRORS):
        problem, remedy = "the AWS configuration is wrong", f"correct profile {profile} in ~/.aws/config"
    else:
        problem = f"the AWS sign-in of profile {profile} is missing or has expired"
        command = "aws login" if isinstance(error, exceptions.LoginError) else "aws sso login"
        remedy = f"run `{command} --profile {profile}`, then the same command again"
        if isinstance(error, exceptions.LoginInsufficientPermissions):
            remedy = "ask your administrator for the permission signin:CreateOAuth2Token"
    return AccessError(f"{what}: {problem} ({first_line(error)}): {remedy}.")


class _Profile:
    """Profile of the newest clients, if their maker named one. The errors do not contain it."""

    name: str | None = None


def remember_profile(name: str | None) -> None:
    """Name the profile of clients in later errors. None means the profile of the environment."""
    _Profile.name = name


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, without its full stop; its class if it has none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".: ")
