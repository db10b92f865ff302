"""MLflow client that waits while the tracking server does not answer, and the sentences about its errors.

Waiting is always safe, because the job's log is the durable copy. Nothing is dropped, and the order is kept.

A failed call raises an exception of MLflow (`mlflow.utils.rest_utils.verify_rest_response`), of `requests` for
artifacts, or of botocore for artifacts that are read from S3 directly. When MLflow wraps an error, only its text
remains, so this module parses the text. The names of permissions come from `mlflow.server.auth`.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from mlflow import MlflowClient, get_tracking_uri
from mlflow.entities import Metric, Param, RunTag
from mlflow.exceptions import MlflowException, RestException
from mlflow.utils.credentials import read_mlflow_creds
from mlflow.utils.validation import MAX_ENTITY_KEY_LENGTH, MAX_PARAM_VAL_LENGTH, MAX_TAG_VAL_LENGTH, path_not_unique
from sqlalchemy.engine import create_engine
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError

from state.errors import database_reason
from state.folders import database_exists
from tracking.server.database import database_file, prepare
from training.contract.errors import NotAllowed, TrackingError
from training.contract.plain_text import without_control_characters, without_secrets
from training.contract.retry import RetryPolicy

# MLflow's own retries are silent and take minutes; ours are reported. MLflow reads these variables at each request.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "15")
# Otherwise MLflow prints the address of every run that ends, with the server's password in it.
os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
# Seconds after which PostgreSQL's drivers give up a connection, here and in MLflow.
os.environ.setdefault("PGCONNECT_TIMEOUT", "10")


Result = TypeVar("Result")

_CONNECT_SECONDS = 3.0
_SILENT_SECONDS = 2.0
"""Shorter waits, such as for a locked database, are not reported."""
_FORBIDDEN = re.compile(r"[^/\w.\- :]")
"""Characters that MLflow forbids in the names of metrics, parameters and tags."""


class Store:
    """MLflow client that repeats each call until the server answers or `retry_seconds` have passed."""

    def __init__(
        self,
        client: MlflowClient,
        *,
        retry_seconds: float = 3600.0,
        echo: Callable[[str], None] = print,
        sleep: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.client = client
        self._retry_policy = RetryPolicy(total_seconds=retry_seconds, sleep=sleep, clock=clock)
        self._echo = echo
        self.subject = "the experiment"
        """Experiment or model that the calls use, for error messages."""

    @property
    def user(self) -> str | None:
        """User name for the tracking server, if any."""
        return user_of(self._uri)

    @property
    def uri(self) -> str:
        """Address of the tracking server without user name and password, for messages."""
        return without_secrets(self._uri, self._uri)

    @property
    def _uri(self) -> str:
        return str(self.client.tracking_uri)

    def call(self, method: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
        """Return `method(*args, **kwargs)`, and repeat it while the server does not answer.

        All text in the arguments is made `storable` first.

        All calls made here can be repeated safely. MLflow identifies a metric point by name, step, time and value, so
        a point is not stored twice if only the answer was lost.

        Raises `TrackingError` if the server has not answered for `retry_seconds`, and immediately if it refuses the
        call: `NotAllowed` if it does not know the user or a permission is missing.
        """
        policy, started = self._retry_policy, self._retry_policy.clock()

        def report_silence(seconds: float, error: Exception) -> None:
            if seconds >= _SILENT_SECONDS:
                cause = reason(error, self._uri)
                self._echo(f"The tracking server has not answered for {seconds:.0f} s ({cause}); nothing is lost.")

        try:
            return policy.call(
                lambda: method(*storable(args), **{name: storable(each) for name, each in kwargs.items()}),
                is_transient=lambda error: is_foreign(error) and not is_final(error),
                on_failure=report_silence,
            )
        except Exception as error:
            if not is_foreign(error):
                raise
            if is_final(error):
                raise translated(error, self._uri, self.subject) from error
            seconds = policy.clock() - started
            raise TrackingError(
                f"The tracking server {self.uri} has not answered for {seconds:.0f} s: {reason(error, self._uri)}"
            ) from error

    def create(
        self, method: Callable[..., Result], *args: Any, existing: Callable[[], Result | None], **kwargs: Any
    ) -> Result:
        """Create an object by `method(*args, **kwargs)`, with retries, and return it.

        Before each retry, `existing` looks for the object: it may be there already, if an earlier response was lost or
        another launcher created it first.
        """
        is_repeated = False

        def attempt(*args: Any, **kwargs: Any) -> Result:
            nonlocal is_repeated
            if is_repeated and (result := existing()) is not None:
                return result
            is_repeated = True
            return method(*args, **kwargs)

        try:
            return self.call(attempt, *args, **kwargs)
        except TrackingError as error:
            refusal = error.__cause__
            exists = isinstance(refusal, MlflowException) and refusal.error_code == "RESOURCE_ALREADY_EXISTS"
            if exists and (result := self.call(existing)) is not None:
                return result
            raise

    def tag(self, run_id: str, tags: Mapping[str, str]) -> None:
        """Set all of `tags` in one call."""
        self.call(self.client.log_batch, run_id, tags=[RunTag(name, value) for name, value in tags.items()])


def storable(value: Any) -> Any:
    """Return an argument of a call with text that every server can store, also if a job reported it.

    PostgreSQL refuses NUL, and JSON halves of surrogate pairs. Values of tags and parameters are cut at MLflow's limit.
    """
    if isinstance(value, str):
        return without_control_characters(value)
    if isinstance(value, RunTag):
        return RunTag(_storable_name(value.key), storable(value.value)[:MAX_TAG_VAL_LENGTH])
    if isinstance(value, Param):
        return Param(_storable_name(value.key), storable(value.value)[:MAX_PARAM_VAL_LENGTH])
    if isinstance(value, Metric):
        return Metric(_storable_name(value.key), value.value, value.timestamp, value.step)
    if isinstance(value, dict):
        tags = storable([RunTag(name, each) for name, each in value.items()])
        return {tag.key: tag.value for tag in tags}
    return [storable(each) for each in value] if isinstance(value, (list, tuple)) else value


def _storable_name(name: str) -> str:
    """Return the name with the codes of characters that MLflow forbids, such as `lr_40_end` for `lr@end`."""

    def code(character: re.Match[str]) -> str:
        return f"_{ord(character[0]):x}_"

    name = _FORBIDDEN.sub(code, name)[:MAX_ENTITY_KEY_LENGTH]
    return re.sub(r"[/.]", code, name) or "_" if path_not_unique(name) else name


def open_store(
    uri: str | None = None,
    *,
    echo: Callable[[str], None] = print,
    retry_seconds: float = 3600.0,
    otherwise: str = "Nothing was started.",
) -> Store:
    """Return a store for `uri`, or for the environment's tracking server, once the server has answered a call.

    Raises `TrackingError` within seconds if the server does not answer, before anything is started and charged.
    `otherwise` is the last sentence of that error, such as "Nothing was started."
    """
    # sagemaker-mlflow 0.5.0 parses every tracking URI as an ARN, and warns at each request to a server without one.
    logger = logging.getLogger("mlflow.tracking.request_header.registry")
    logger.addFilter(lambda record: "list index out of range" not in record.getMessage())
    try:
        prepare(uri or get_tracking_uri())
        require_answer(uri or get_tracking_uri())
        client = MlflowClient(tracking_uri=uri)
        Store(client, retry_seconds=3.0, echo=lambda _: None).call(client.search_experiments, max_results=1)
    except TrackingError as error:
        raise type(error)(f"{str(error).rstrip('.')}. {otherwise}") from error
    except (MlflowException, OSError, ImportError) as error:
        address = uri or get_tracking_uri()
        failure = f"The tracking server {without_secrets(address, address)} cannot be used"
        raise TrackingError(f"{failure}: {reason(error, address).rstrip('.')}. {otherwise}") from error
    return Store(client, retry_seconds=retry_seconds, echo=echo)


def open_existing_store(uri: str | None = None, *, otherwise: str = "Nothing was started.") -> Store | None:
    """Return a store that only reads, or None for a database that does not exist yet.

    Raises `TrackingError` if the server does not answer. `otherwise` is the last sentence of that error.
    """
    path = database_file(uri or get_tracking_uri())
    if path is not None and not database_exists(path):
        return None
    return open_store(uri, echo=lambda _: None, retry_seconds=10.0, otherwise=otherwise)


def database_name() -> str:
    """Return the path of the tracking database, or the address of a tracking server without its secrets."""
    uri = get_tracking_uri()
    return str(database_file(uri) or without_secrets(uri, uri))


def require_answer(uri: str) -> None:
    """Connect to the PostgreSQL server that a tracking URI names, before MLflow opens its store there.

    MLflow itself tries for more than a minute, and prints each attempt. Other stores are not checked.

    Raises `TrackingError` if it does not accept a connection, and ImportError if the driver is not installed.
    """
    if not uri.startswith(("postgresql:", "postgresql+")):
        return
    try:
        engine = create_engine(uri)
    except (ArgumentError, ValueError) as error:
        raise TrackingError(
            f"The tracking server {without_secrets(uri, uri)} is not an address of a database: write special "
            "characters of the password as %40 for @, %2F for / and %3A for :."
        ) from error
    policy = RetryPolicy(total_seconds=_CONNECT_SECONDS)
    started = policy.clock()
    try:
        policy.call(lambda: engine.connect().close(), is_transient=lambda error: isinstance(error, OperationalError))
    except DBAPIError as error:
        seconds = policy.clock() - started
        raise TrackingError(
            f"The tracking server {without_secrets(uri, uri)} has not answered for {seconds:.0f} s: "
            f"{reason(error.orig or error, uri)}."
        ) from error
    finally:
        engine.dispose()


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
    match = _PATH.search(text)
    path = match[1] if match else ""
    is_reading = bool(_READING.search(path))
    if path.startswith("mlflow-artifacts"):
        is_reading = getattr(getattr(error, "request", None), "method", "GET") == "GET"
    if created := re.search(r"(experiments|registered-models)/create$", path):
        kind = created[1].replace("-", " ")
        action, missing = "create", f"the right to create {kind} (USE of the workspace)"
    elif is_reading:
        action, missing = "read", "the permission READ on it (EDIT to train in it)"
    else:
        action, missing = "write to", "the permission EDIT on it"
    return (
        f"does not let {who} {action} {subject} (403): "
        f"{missing} is missing; an administrator of the server can grant it"
    )


def is_unknown_call(error: BaseException | None) -> bool:
    """Return whether the server is too old to know the call."""
    if not isinstance(error, MlflowException) or error.error_code == "RESOURCE_DOES_NOT_EXIST":
        return False
    return error.error_code == "ENDPOINT_NOT_FOUND" or _status(error) == 404


def is_refusal(error: TrackingError) -> bool:
    """Return whether the server refused the call and would refuse the next attempt, too."""
    return isinstance(error.__cause__, Exception) and is_final(error.__cause__)
