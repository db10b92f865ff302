"""Why a tracking server did not do what it was asked, in one sentence that a person can act on.

An answer reaches us as one of several exceptions (`mlflow.utils.rest_utils.verify_rest_response`, `requests` for
artifacts, botocore where these lie in S3 without a server between), and what MLflow wraps keeps only its text: so the
text is read. Permissions and their names are those of `mlflow.server.auth`.
"""

from __future__ import annotations

import os
import re
from urllib.parse import unquote, urlsplit

from mlflow.exceptions import MlflowException, RestException
from mlflow.utils.credentials import read_mlflow_creds

from training.contract.errors import NotAllowed, TrackingError

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
"""Answers that another try would not change; the SQL stores raise them too."""

_PASSING_STATUSES = frozenset({408, 409, 429, 499})
"""Of those that blame the caller, the ones that another try may not meet."""

_STATUS = re.compile(r"failed with error code (\d{3}) != |\b(\d{3}) (?:Client|Server) Error: ")
_PATH = re.compile(r"/api/\d\.\d/(mlflow[\w/-]*)")
_READING = re.compile(r"/(?:get|search|list)[\w-]*$")
_OF_S3 = re.compile(r"\((?:AccessDenied|InvalidAccessKeyId|ExpiredToken)\)|Unable to locate credentials")
_WRONG_NAME = "Invalid Host header"
_LACKS_PERMISSION = "Permission denied"
"""All that the basic-auth app answers where a permission is missing."""
_CAUSES = {
    "Connection refused": "nobody listens there",
    "Failed to resolve": "its name is not known",
    "timed out": "no answer in time",
    "Connection aborted": "the connection broke off",
}


def is_foreign(error: Exception) -> bool:
    """Tell whether an error is the server's, its database's or its artifact store's, and not a fault of ours."""
    return isinstance(error, (MlflowException, OSError)) or type(error).__module__.split(".")[0] in {
        "boto3",
        "botocore",
    }


def is_final(error: Exception) -> bool:
    """Tell whether another try would bring the same answer."""
    if isinstance(error, MlflowException) and error.error_code in _FINAL_CODES:
        return True
    status = _status(error)
    if status is not None:
        return 400 <= status < 500 and status not in _PASSING_STATUSES
    return bool(_OF_S3.search(str(error)))


def translated(error: Exception, uri: str, subject: str = "the experiment", task: str = "do it") -> TrackingError:
    """Return what a failed call to the tracking server `uri` means.

    `subject` is what was worked on, `task` what was not done. User names are told, passwords are not.
    """
    server, status = f"The tracking server {without_credentials(uri)}", _status(error)
    if status == 401 and uri.startswith("http"):
        return NotAllowed(f"{server} {_unknown(uri)}")
    if status == 403 and uri.startswith("http"):
        return NotAllowed(f"{server} {_forbidden(error, uri, subject)}")
    kind = NotAllowed if status in (401, 403) else TrackingError
    return kind(f"{server} {'refused' if is_final(error) else f'did not {task}'}: {reason(error)}")


def reason(error: Exception) -> str:
    """Return the cause of a failure in a few words, or the first line of what it says."""
    text = str(error)
    for words, cause in _CAUSES.items():
        if words in text:
            return cause
    return without_credentials((text.splitlines() or [type(error).__name__])[0])[:300]


def user_of(uri: str) -> str | None:
    """Return the name under which the server at `uri` is asked: the address's own, else what MLflow is told."""
    return unquote(urlsplit(uri).username or "") or read_mlflow_creds().username or None


def without_credentials(text: str) -> str:
    """Return a text with the name and password taken out of every address in it."""
    return re.sub(r"(?<=://)[^/\s]*@", "", text)


def _status(error: Exception) -> int | None:
    """Return the HTTP status that the server answered with; None where none did."""
    if isinstance(error, RestException):
        return int(error.get_http_status_code())
    found = _STATUS.search(str(error))
    return int(found[1] or found[2]) if found else None


def _unknown(uri: str) -> str:
    if (user := user_of(uri)) and (urlsplit(uri).password or read_mlflow_creds().password):
        return (
            f"does not accept the password of user '{user}' (401): MLFLOW_TRACKING_USERNAME and "
            "MLFLOW_TRACKING_PASSWORD must be those of an account of this server"
        )
    if os.environ.get("MLFLOW_TRACKING_TOKEN"):
        return "does not accept the token in MLFLOW_TRACKING_TOKEN (401)"
    return "asks who calls (401): set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"


def _forbidden(error: Exception, uri: str, subject: str) -> str:
    text = str(error)
    if _WRONG_NAME in text:
        name = urlsplit(uri).netloc.rpartition("@")[2]
        return f"does not answer to the name '{name}' (403): whoever runs it adds that name to --allowed-hosts"
    if not text.rstrip(" .'\"\n").endswith(_LACKS_PERMISSION):
        return f"refused (403): {reason(error)}"
    user = user_of(uri)
    who = f"user '{user}'" if user else "who calls without a name"
    doing, missing = _missing(error)
    return (
        f"does not let {who} {doing} {subject} (403): {missing} is missing, an administrator of the server can give it"
    )


def _missing(error: Exception) -> tuple[str, str]:
    """Return what was tried, and the permission that it needs."""
    found = _PATH.search(str(error))
    path = found[1] if found else ""
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
    """Tell whether a server's answer means that it does not know the call at all: it is older than the call."""
    if not isinstance(error, MlflowException) or error.error_code == "RESOURCE_DOES_NOT_EXIST":
        return False
    return error.error_code == "ENDPOINT_NOT_FOUND" or _status(error) == 404


def is_refusal(error: TrackingError) -> bool:
    """Tell whether the server has answered, and another try would bring the same answer."""
    return isinstance(error.__cause__, Exception) and is_final(error.__cause__)
