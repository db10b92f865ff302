"""Every error that a person can cause or meet.

TrainfareError
├── InputError            the experiment, the data or the command line is wrong; nothing was started
├── ServiceError          a service refused a call or lost something
│   ├── JobExists         a job of this name exists: attach to it instead
│   ├── JobNotFound       no job of this name
│   ├── EndpointTaken     an endpoint of this name serves another model
│   ├── EndpointNotFound  no endpoint of this name
│   ├── EndpointFailed    an endpoint does not come up, or has died
│   ├── AccessError       no credentials, credentials that have expired, or a right that is missing
│   ├── QuotaError        the account may not use what the job asks for
│   ├── ArtifactError     a model artifact is missing, broken or not to be unpacked
│   └── Unreachable       the service does not answer, or answers too slowly to be asked again
├── JobFailed             a job ended otherwise than Completed
├── NotGoodEnough         the quality gate refuses a model
├── TrackingError         the tracking server does not answer
└── StorageError          the database of a sweep's studies does not answer, or refuses

The command line prints the message of any of these as one sentence and exits with `exit_code`; anything
else is a fault of ours and keeps its traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class TrainfareError(Exception):
    """Base of all: its message is one sentence that a user can act on."""

    exit_code = 1


class InputError(TrainfareError):
    """The experiment, the data or the command line is wrong; names the field or file, the value and the rule."""

    exit_code = 2


class ServiceError(TrainfareError):
    """A service refused a call or lost something."""


class JobExists(ServiceError):
    """A job of this name exists already."""


class JobNotFound(ServiceError):
    """No job of this name exists."""


class EndpointTaken(ServiceError):
    """An endpoint of this name serves another model."""


class EndpointNotFound(ServiceError):
    """No endpoint of this name exists."""


class EndpointFailed(ServiceError):
    """An endpoint does not come up, or has died; the message tells the last lines of its log."""


class AccessError(ServiceError):
    """No credentials, credentials that have expired, or a right that is missing."""


class QuotaError(ServiceError):
    """The account may not use what the job asks for.

    `quota` is its name as Service Quotas lists it; `is_final` tells that waiting is in vain: no other job's end makes
    room for this one.
    """

    def __init__(self, message: str, quota: str, *, is_final: bool):
        super().__init__(message)
        self.quota = quota
        self.is_final = is_final


class ArtifactError(ServiceError):
    """A model artifact is missing, broken, or holds what may not be unpacked."""


class Unreachable(ServiceError):
    """The service does not answer, or not in time."""


class JobFailed(TrainfareError):
    """A job ended otherwise than Completed.

    `failure_class` is one of `training.contract.events.FAILURE_CLASSES`; `log_tail` holds the last lines.
    """

    def __init__(self, job_name: str, failure_class: str, reason: str, log_location: str, log_tail: list[str]):
        super().__init__(f"Job {job_name} ended with {failure_class}: {reason} (log: {log_location})")
        self.job_name = job_name
        self.failure_class = failure_class
        self.reason = reason
        self.log_location = log_location
        self.log_tail = log_tail


class NotGoodEnough(TrainfareError):
    """A model is not put to use, such as a worse one; the message names the words that allow it."""


class TrackingError(TrainfareError):
    """The tracking server does not answer, or refuses."""


class NotAllowed(TrackingError):
    """The tracking server does not know who asks, or a permission is missing."""


class StorageError(TrainfareError):
    """The database that holds a sweep's studies does not answer, or refuses."""


def nearest(value: str, known: Iterable[str]) -> str:
    """Return ` Did you mean 'x'?` for the known spelling closest to `value`, or an empty string."""
    matches = difflib.get_close_matches(value, list(known), n=1, cutoff=0.6)
    return f" Did you mean {matches[0]!r}?" if matches else ""
