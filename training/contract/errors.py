"""All errors that a user can cause or encounter.

TrainfareError
├── InputError            the experiment, the data or the command line is wrong; nothing was started
│   └── InputErrors       several of these errors at once
├── ServiceError          a service rejected a call, or something that it manages is missing or broken
│   ├── JobExists         a job with this name already exists; attach to it instead
│   ├── JobNotFound       no job has this name
│   ├── EndpointTaken     an endpoint with this name serves another model
│   ├── EndpointNotFound  no endpoint has this name
│   ├── EndpointFailed    an endpoint did not start, or has died
│   ├── AccessError       credentials are missing or expired, or a permission is missing
│   │   └── CredentialsError  they are missing or expired, so new ones help
│   ├── QuotaError        an account quota is exceeded
│   ├── ArtifactError     a model artifact is missing, broken or unsafe to unpack
│   └── Unreachable       the service does not answer, or answers too late
├── BudgetFull            the budget of a group has no room for a job
├── NotGoodEnough         the quality gate rejects a model
├── TrackingError         the tracking server does not answer, or rejects a call
│   └── NotAllowed        the tracking server rejects the credentials, or a permission is missing
└── StorageError          the database of the sweep studies does not answer, or rejects a call

The command line prints the message of these errors and exits with `exit_code`. It also explains errors of the operating
system and of databases. Any other exception is a bug in trainfare, and its traceback is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from state.errors import InputError as InputError
from state.errors import InputErrors as InputErrors
from state.errors import TrainfareError as TrainfareError
from training.job.tasks.checks import nearest as nearest
from training.job.tasks.checks import nearest_name as nearest_name
from training.job.tasks.checks import short_text as short_text

Result = TypeVar("Result")


def messages_of(error: BaseException) -> tuple[str, ...]:
    """Return the messages of all errors that an error stands for, or its own message."""
    return error.messages if isinstance(error, InputErrors) else (str(error),)


def each_result(attempts: Iterable[Callable[[], Result]]) -> list[Result]:
    """Return the results of all attempts, in order. Raises `InputErrors` with the errors of all that failed."""
    results: list[Result] = []
    errors: dict[str, None] = {}
    for attempt in attempts:
        try:
            results.append(attempt())
        except InputError as error:
            errors |= dict.fromkeys(messages_of(error))
    if errors:
        raise InputErrors(list(errors))
    return results


class ServiceError(TrainfareError):
    """A service rejected a call, or something that it manages is missing or broken."""


class JobExists(ServiceError):
    """A job with this name already exists."""


class JobNotFound(ServiceError):
    """No job has this name."""


class EndpointTaken(ServiceError):
    """An endpoint with this name serves another model."""


class EndpointNotFound(ServiceError):
    """No endpoint has this name."""


class EndpointFailed(ServiceError):
    """An endpoint did not start, or has died. The message contains the last lines of its log."""


class AccessError(ServiceError):
    """Credentials are missing or expired, or a permission is missing."""


class CredentialsError(AccessError):
    """Credentials are missing or expired."""


class QuotaError(ServiceError):
    """An account quota is exceeded.

    `quota` is the quota's name in Service Quotas. `is_final` means that waiting does not help: the request exceeds the
    quota even if no other job runs.
    """

    def __init__(self, message: str, quota: str, *, is_final: bool, waits_for: str = ""):
        super().__init__(message)
        self.quota = quota
        self.is_final = is_final
        self.waits_for = waits_for or f"the quota '{quota}' (all of it is in use)"


class ArtifactError(ServiceError):
    """A model artifact is missing, broken or unsafe to unpack."""


class Unreachable(ServiceError):
    """The service does not answer, or answers too late."""


class BudgetFull(TrainfareError):
    """The budget of a group has no room for a job.

    `holding` names the jobs that may still end for less than they could cost. `is_final` means that waiting does not
    help.
    """

    def __init__(self, message: str, holding: frozenset[str], *, is_final: bool):
        super().__init__(message)
        self.holding = holding
        self.is_final = is_final


class NotGoodEnough(TrainfareError):
    """The quality gate rejects a model, for example one that is worse than the current one.

    The message names the option that overrides the gate.
    """


class TrackingError(TrainfareError):
    """The tracking server does not answer, or rejects a call."""


class NotAllowed(TrackingError):
    """The tracking server rejects the credentials, or a permission is missing."""


class StorageError(TrainfareError):
    """The database of the sweep studies does not answer, or rejects a call."""


def nearest_sibling(path: Path) -> str:
    """Return ` Did you mean 'x'?` for the entry of the same folder whose name is closest, or an empty string."""
    try:
        return nearest(path.name, (entry.name for entry in path.parent.iterdir()))
    except (OSError, ValueError):
        return ""


def first_line(error: Exception, longest: int = 300) -> str:
    """Return the first line of an error's message, without its full stop; the error's class if it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".: ")[:longest]
