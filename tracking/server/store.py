"""A patient MLflow client: a tracking server that stops answering delays what is logged and loses nothing.

The job's log is the durable copy, so waiting here is always safe: nothing is dropped, and what follows stays in order.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from training.contract.errors import TrackingError
from training.contract.retry import RetryPolicy

# mlflow's own retries are silent and last minutes; ours are said. Read by mlflow at each request.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "15")
# It would print the address of every run that ends, the server's password in it.
os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")

from mlflow import MlflowClient, get_tracking_uri
from mlflow.entities import RunTag
from mlflow.exceptions import MlflowException

from tracking.server.errors import is_final, is_foreign, reason, translated, user_of, without_credentials

Result = TypeVar("Result")

_SILENT_SECONDS = 2.0
"""Shorter waits, such as for a locked database, are not worth a line."""


class Store:
    """Calls on an MLflow tracking server, each repeated until it is answered or patience ends."""

    def __init__(
        self,
        client: MlflowClient,
        *,
        retry_seconds: float = 3600.0,
        say: Callable[[str], None] = print,
        sleep: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.client = client
        self._retry_policy = RetryPolicy(total_seconds=retry_seconds, sleep=sleep, clock=clock)
        self._say = say
        self.subject = "the experiment"
        """What is worked on, as refusals name it."""

    @property
    def user(self) -> str | None:
        """Name under which the tracking server is asked, if any."""
        return user_of(str(self.client.tracking_uri))

    @property
    def uri(self) -> str:
        """Address of the tracking server, without a name and password in it: what people may read."""
        return without_credentials(str(self.client.tracking_uri))

    def call(self, method: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
        """Return `method(*args, **kwargs)`, trying again while the server does not answer.

        Every call made through here can be repeated without harm: MLflow keys a metric point by name, step, time and
        value, so a point that arrived before the answer was lost is not stored twice.

        Raises `TrackingError` when the server has not answered for `retry_seconds`, and at once when it refuses:
        `NotAllowed` where it does not know who asks, or a permission is missing.
        """
        policy, started = self._retry_policy, self._retry_policy.clock()
        try:
            return policy.call(
                lambda: method(*args, **kwargs),
                is_transient=lambda error: is_foreign(error) and not is_final(error),
                on_failure=self._report_silence,
            )
        except Exception as error:
            if not is_foreign(error):
                raise
            if is_final(error):
                raise translated(error, str(self.client.tracking_uri), self.subject) from error
            seconds = policy.clock() - started
            raise TrackingError(
                f"The tracking server {self.uri} has not answered for {seconds:.0f} s: {reason(error)}"
            ) from error

    def _report_silence(self, seconds: float) -> None:
        if seconds >= _SILENT_SECONDS:
            self._say(f"The tracking server has not answered for {seconds:.0f} s; nothing is lost.")

    def create(
        self, method: Callable[..., Result], *args: Any, existing: Callable[[], Result | None], **kwargs: Any
    ) -> Result:
        """Return what `method(*args, **kwargs)` creates, once: before it is repeated, `existing` looks for it.

        An answer that is lost leaves what it would have told of behind; so does another launcher that came first.
        """
        tried = False

        def attempt() -> Result:
            nonlocal tried
            if tried and (found := existing()) is not None:
                return found
            tried = True
            return method(*args, **kwargs)

        try:
            return self.call(attempt)
        except TrackingError as error:
            refusal = error.__cause__
            is_there = isinstance(refusal, MlflowException) and refusal.error_code == "RESOURCE_ALREADY_EXISTS"
            if is_there and (found := self.call(existing)) is not None:
                return found
            raise

    def tag(self, run_id: str, tags: Mapping[str, str]) -> None:
        """Set all of `tags`, or none."""
        self.call(self.client.log_batch, run_id, tags=[RunTag(name, value) for name, value in tags.items()])


def open_store(
    uri: str | None = None,
    *,
    say: Callable[[str], None] = print,
    retry_seconds: float = 3600.0,
    otherwise: str = "Nothing was started.",
) -> Store:
    """Return a store for `uri`, or for the environment's tracking server, after one answered call.

    Raises `TrackingError` within seconds when it does not answer: this is asked before anything is paid for.
    `otherwise` is what the error then says of what was to be done.
    """
    logging.getLogger("mlflow.tracking.request_header.registry").addFilter(_not_the_arn_complaint)
    try:
        client = MlflowClient(tracking_uri=uri)
        Store(client, retry_seconds=3.0, say=lambda _: None).call(client.search_experiments, max_results=1)
    except TrackingError as error:
        raise type(error)(f"{str(error).rstrip('.')}. {otherwise}") from error
    except (MlflowException, OSError, ImportError) as error:
        where = f"The tracking server {without_credentials(uri or get_tracking_uri())} cannot be used"
        raise TrackingError(f"{where}: {reason(error).rstrip('.')}. {otherwise}") from error
    return Store(client, retry_seconds=retry_seconds, say=say)


def _not_the_arn_complaint(record: logging.LogRecord) -> bool:
    # sagemaker-mlflow 0.5.0 reads every tracking URI as an ARN and warns at each request to any other server.
    return "list index out of range" not in record.getMessage()
