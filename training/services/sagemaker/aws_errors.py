"""What AWS answers when it does not do as it is asked, in our own errors, each a sentence that a person can act on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

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

NO_CREDENTIALS = (exceptions.NoCredentialsError, exceptions.PartialCredentialsError, exceptions.ProfileNotFound)
EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"}
UNKNOWN_KEY = {"UnrecognizedClientException", "InvalidClientTokenId", "InvalidAccessKeyId", "SignatureDoesNotMatch"}
DENIED = {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "403"}
THROTTLED = {"ThrottlingException", "Throttling", "TooManyRequestsException", "RequestLimitExceeded", "SlowDown"}
NOT_FOUND = re.compile(
    r"Requested resource not found|Could not find (training job|(endpoint([ _]config(uration)?)?|model) [\"'])",
    re.IGNORECASE,
)
EXISTS = re.compile(r"Cannot create already existing", re.IGNORECASE)

RENEW = "renew them (`aws sso login`, or new keys) and give the same command again"


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Raise what boto3 raises as an error of ours; `what` is what was asked for, such as `job demo-1`."""
    try:
        yield
    except exceptions.ClientError as error:
        raise refusal(what, error.response) from error
    except NO_CREDENTIALS as error:
        raise AccessError(
            f"{what}: AWS credentials are missing ({_line(error)}): `aws configure`, `aws sso login` or AWS_PROFILE "
            f"gives some. Nothing was started."
        ) from error
    except (exceptions.TokenRetrievalError, exceptions.UnauthorizedSSOTokenError) as error:
        raise AccessError(f"{what}: AWS credentials have expired ({_line(error)}): {RENEW}.") from error
    except (exceptions.ConnectionError, exceptions.HTTPClientError, exceptions.IncompleteReadError) as error:
        raise Unreachable(f"{what}: AWS does not answer ({_line(error)}); check the region and the network.") from error
    except exceptions.ParamValidationError as error:
        raise InputError(f"{what}: the request is malformed: {_line(error)}.") from error
    except exceptions.BotoCoreError as error:
        raise ServiceError(f"{what}: {_line(error)}.") from error


def refusal(what: str, response: Mapping[str, Any]) -> ServiceError | InputError:
    """Return the error for what AWS answered."""
    code, message = str(response["Error"].get("Code")), str(response["Error"].get("Message", ""))
    said = message.strip().rstrip(".") or code
    if code in EXPIRED:
        return AccessError(f"{what}: AWS credentials have expired: {RENEW}.")
    if code in UNKNOWN_KEY:
        return AccessError(f"{what}: AWS does not know the credentials ({said}).")
    if code in DENIED:
        return AccessError(f"{what}: access is denied: {said}. docs/aws.md lists the rights that are needed.")
    if code == "ResourceLimitExceeded":
        return quota_error(what, said)
    if code == "ResourceInUse" or EXISTS.search(message):
        return JobExists(f"{what} exists already at SageMaker.")
    if code in {"ResourceNotFound", "ResourceNotFoundException"} or NOT_FOUND.search(message):
        return JobNotFound(f"{what} does not exist at SageMaker in this region and account.")
    if code in THROTTLED:
        return Unreachable(f"{what}: AWS answers too many calls ({said}); give the same command again later.")
    if code.startswith("ValidationException"):
        return InputError(f"{what}: SageMaker refuses the request: {said}.")
    return ServiceError(f"{what}: {code}: {said}.")


def quota_error(what: str, message: str) -> QuotaError:
    """Return the error for a quota; SageMaker's message names it, its limit and how much more was asked for."""
    name = re.search(r"service limit '([^']+)'", message)
    limit, wanted = _number(r"' is (\d+)", message), _number(r"request delta of (\d+)", message)
    is_final = limit is not None and limit < (wanted or 1)
    hint = (
        "ask for more under Service Quotas, SageMaker, or take another machine type; until then it cannot start"
        if is_final
        else "all of it is in use: it is free again as others end"
    )
    quota = name[1] if name else "unknown"
    allowed = "reached" if limit is None else str(limit)
    asked = f", and {wanted} are asked for" if is_final and limit else ""
    return QuotaError(f"{what}: the account's quota '{quota}' is {allowed}{asked}: {hint}.", quota, is_final=is_final)


def _number(pattern: str, message: str) -> int | None:
    found = re.search(pattern, message)
    return int(found[1]) if found else None


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
