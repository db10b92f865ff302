"""Translate errors of a tracking server to one sentence that a user can act on.

A failed call raises an exception of MLflow (`mlflow.utils.rest_utils.verify_rest_response`), of `requests` for
artifacts, or of botocore for artifacts that are read from S3 directly. When MLflow wraps an error, only its text
remains, so this module parses the text. The names of permissions come from `mlflow.server.auth`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote, urlsplit

from mlflow import MlflowClient
from mlflow.exceptions import MlflowException, RestException
from mlflow.utils.credentials import read_mlflow_creds

from state.errors import database_reason
from training.contract.errors import NotAllowed, TrackingError
from training.contract.plain_text import without_secrets

_FINAL_CODES = frozenset(
    {
        "INVALID_PARAMETER_VALUE",
        "RESOURCE_DOES_NOT_EXIST",
        "RESOURCE_ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "UNAUTHENTICATED",
        "CUSTOMER_UNAUTHORIZED",
        "BAD_REQUEST",
        "ENDPOINT_NOT_FOUND",
        "FEATURE_DISABLED",
    }
)
"""Errors that occur again at the next attempt. The SQL stores raise them, too."""

_TRANSIENT_STATUSES = frozenset({408, 409, 429, 499})
"""Client errors (4xx) that may not occur again at the next attempt."""

_STATUS = re.compile(r"failed with error code (\d{3}) != |\b(\d{3}) (?:Client|Server) Error: ")
_PATH = re.compile(r"/api/\d\.\d/(mlflow[\w/-]*)")
_READING = re.compile(r"/(?:get|search|list)[\w-]*$")
_S3_REFUSAL = re.compile(r"\((?:AccessDenied|InvalidAccessKeyId|ExpiredToken)\)|Unable to locate credentials")
_SAME_ROW = re.compile(r"UNIQUE constraint failed|violates unique constraint|Duplicate entry")
"""Two launchers wrote the same parameter or tag at once, on SQLite, PostgreSQL and MySQL. The next attempt finds it."""
_WRONG_HOST = "Invalid Host header"
_LACKS_PERMISSION = "Permission denied"
"""Complete answer of MLflow's basic-auth app if a permission is missing."""
_CAUSES = {
    "Connection refused": "nothing listens at this address",
    "Failed to resolve": "its host name cannot be resolved",
    "timed out": "no answer in time",
    "timeout expired": "no answer in time",
    "Connection aborted": "the connection was interrupted",
}


def is_foreign(error: Exception) -> bool:
    """Return whether an error comes from the server, its database or its artifact store."""
    return isinstance(error, (MlflowException, OSError)) or type(error).__module__.split(".")[0] in {
        "boto3",
        "botocore",
    }


def is_final(error: Exception) -> bool:
    """Return whether the next attempt would fail in the same way."""
    if _SAME_ROW.search(str(error)):
        return False
    if isinstance(error, MlflowException) and error.error_code in _FINAL_CODES:
        return True
    status = _status(error)
    if status is not None:
        return 400 <= status < 500 and status not in _TRANSIENT_STATUSES
    return bool(_S3_REFUSAL.search(str(error)))


def translated(error: Exception, uri: str, subject: str = "the experiment", task: str = "do it") -> TrackingError:
    """Translate the error of a failed call to the tracking server `uri`.

    `subject` names the experiment or model that the call used, and `task` the action that failed, such as "list the
    runs". Messages contain user names, but no passwords.
    """
    server, status = f"The tracking server {without_secrets(uri, uri)}", _status(error)
    if status == 401 and uri.startswith("http"):
        return NotAllowed(f"{server} {_unknown(uri)}")
    if status == 403 and uri.startswith("http"):
        return NotAllowed(f"{server} {_forbidden(error, uri, subject)}")
    kind = NotAllowed if status in (401, 403) else TrackingError
    return kind(f"{server} {'refused' if is_final(error) else f'did not {task}'}: {reason(error, uri)}")


@contextmanager
def server_errors(client: MlflowClient, task: str) -> Iterator[None]:
    """Translate errors of calls of this client; `task` is the action that fails, such as "list the runs"."""
    try:
        yield
    except MlflowException as error:
        raise translated(error, client.tracking_uri, task=task) from error


def reason(error: BaseException, uri: str) -> str:
    """Return the cause of an error of the server at `uri` in a few words, or else the first line of its message."""
    text = str(error)
    for part, cause in _CAUSES.items():
        if part in text:
            return cause
    return database_reason(without_secrets((text.splitlines() or [type(error).__name__])[0], uri)[:300])


def user_of(uri: str) -> str | None:
    """Return the user name for the server at `uri`: the one in the URI, or else the one in MLflow's configuration."""
    return unquote(urlsplit(uri).username or "") or read_mlflow_creds().username or None


def _status(error: Exception) -> int | None:
    """Return the HTTP status of the answer, or None if there was no answer."""
    if isinstance(error, RestException):
        return int(error.get_http_status_code())
    match = _STATUS.search(str(error))
    return int(match[1] or match[2]) if match else None


def _unknown(uri: str) -> str:
    if (user := user_of(uri)) and (urlsplit(uri).password or read_mlflow_creds().password):
        return (
            f"does not accept the password of user '{user}' (401): set MLFLOW_TRACKING_USERNAME and "
            "MLFLOW_TRACKING_PASSWORD to an account of this server"
        )
    if os.environ.get("MLFLOW_TRACKING_TOKEN"):
        return "does not accept the token in MLFLOW_TRACKING_TOKEN (401)"
    return "requires a user name (401): set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"


def _forbidden(error: Exception, uri: str, subject: str) -> str:
    text = str(error)
    if _WRONG_HOST in text:
        name = urlsplit(uri).netloc.rpartition("@")[2]
        return f"does not accept the host name '{name}' (403): its operator must add that name to --allowed-hosts"
    if not text.rstrip(" .'\"\n").endswith(_LACKS_PERMISSION):
        return f"refused (403): {reason(error, uri)}"
    user = user_of(uri)
    who = f"user '{user}'" if user else "an anonymous user"
    action, missing = _missing_permission(error)
    return (
        f"does not let {who} {action} {subject} (403): "
        f"{missing} is missing; an administrator of the server can grant it"
    )


def _missing_permission(error: Exception) -> tuple[str, str]:
    """Return the action that was refused, and the permission that it requires."""
    match = _PATH.search(str(error))
    path = match[1] if match else ""
    if path.endswith("experiments/create"):
        return "create", "the right to create experiments (USE of the workspace)"
    if path.endswith("registered-models/create"):
        return "create", "the right to create registered models (USE of the workspace)"
    if path.startswith("mlflow-artifacts"):
        is_reading = getattr(getattr(error, "request", None), "method", "GET") == "GET"
    else:
        is_reading = bool(_READING.search(path))
    if is_reading:
        return "read", "the permission READ on it (EDIT to train in it)"
    return "write to", "the permission EDIT on it"


def is_unknown_call(error: BaseException | None) -> bool:
    """Return whether the server is too old to know the call."""
    if not isinstance(error, MlflowException) or error.error_code == "RESOURCE_DOES_NOT_EXIST":
        return False
    return error.error_code == "ENDPOINT_NOT_FOUND" or _status(error) == 404


def is_refusal(error: TrackingError) -> bool:
    """Return whether the server refused the call and would refuse the next attempt, too."""
    return isinstance(error.__cause__, Exception) and is_final(error.__cause__)
