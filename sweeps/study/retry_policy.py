"""Repeat calls on a sweep's database while it does not answer, and translate its errors to one sentence.

All calls made here can be repeated safely. A value whose confirmation was lost is written again. A trial whose creation
was not confirmed has no claim, and the next worker gets it.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from optuna.exceptions import ExperimentalWarning, StorageInternalError
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, PendingRollbackError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from training.contract.errors import StorageError
from training.contract.plain_text import without_secrets
from training.contract.retry import RetryPolicy
from training.state.system_errors import database_hint

Result = TypeVar("Result")

_SILENT_SECONDS = 2.0
"""Shorter waits are not reported."""
_PERMANENT_FAILURES = ("no such table", "no such column", "readonly database", "unable to open", "permission denied")
"""Parts of the messages of operational errors that occur again at the next attempt."""
_DATABASE_ERRORS = (StorageInternalError, SQLAlchemyError, OSError)


class StorageRetries:
    """Calls on a sweep's database, repeated while it does not answer."""

    def __init__(
        self,
        uri: str,
        *,
        retry_seconds: float = 3600.0,
        echo: Callable[[str], None] = print,
        sleep: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._uri = uri
        self.name = without_secrets(uri, uri)
        """Address of the database, without user name and password."""
        self._policy = RetryPolicy(total_seconds=retry_seconds, sleep=sleep, clock=clock)
        self._echo = echo

    def call(self, method: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
        """Return `method(*args, **kwargs)`, and repeat it while the database does not answer.

        Prints a line when it starts to wait, and another one when the database answers again. Raises `StorageError` if
        the database refuses the call, if the study was deleted, or after `retry_seconds` without an answer.
        """
        is_reported, started = False, self._policy.clock()

        def report_silence(seconds: float, error: Exception) -> None:
            nonlocal is_reported
            if seconds >= _SILENT_SECONDS and not is_reported:
                is_reported = True
                silence = f"The storage {self.name} does not answer ({reason(error, self._uri)})"
                self._echo(f"{silence}; jobs keep running, and nothing is lost.")

        try:
            answer = self._policy.call(
                lambda: without_optuna_warnings(method, *args, **kwargs),
                is_transient=is_transient,
                on_failure=report_silence,
            )
        except KeyError as error:
            raise self._translated_key_error(error) from error
        except _DATABASE_ERRORS as error:
            if is_transient(error):
                silent = f"The storage {self.name} has not answered for {self._policy.clock() - started:.0f} s"
                raise StorageError(f"{silent}: {reason(error, self._uri)}.") from error
            raise StorageError(f"The storage {self.name} cannot be used: {reason(error, self._uri)}.") from error
        if is_reported:
            self._echo(f"The storage {self.name} answers again.")
        return answer

    def _translated_key_error(self, error: KeyError) -> Exception:
        # Optuna raises this for a missing row; any other KeyError is a programming error.
        if error.args != ("Record does not exist.",):
            return error
        return StorageError(f"The study of this sweep no longer exists in {self.name}: somebody deleted it.")


def without_optuna_warnings(method: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
    """Return `method(*args, **kwargs)` without Optuna's warnings about features that we use on purpose.

    Heartbeats are experimental, and we use them with `ask` and `tell`, where Optuna itself records none.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        warnings.filterwarnings("ignore", message="Heartbeat of storage is supposed to be used with Study.optimize")
        return method(*args, **kwargs)


def is_transient(error: Exception) -> bool:
    """Return whether the next attempt may succeed, because the database did not answer rather than refuse the call."""
    if not isinstance(error, _DATABASE_ERRORS):
        return False
    cause = error.__cause__ if isinstance(error, StorageInternalError) else error
    if isinstance(cause, DBAPIError) and cause.connection_invalidated:
        return True
    if isinstance(cause, (PoolTimeout, PendingRollbackError)) or not isinstance(cause, SQLAlchemyError):
        return True
    if isinstance(cause, (OperationalError, InterfaceError)):
        return not any(text in str(cause.orig).lower() for text in _PERMANENT_FAILURES)
    return False


def reason(error: BaseException, uri: str) -> str:
    """Return the first line of the message of the database at `uri` or of its driver, and what to do about it."""
    cause = error.__cause__ if isinstance(error, StorageInternalError) and error.__cause__ else error
    original = cause.orig if isinstance(cause, DBAPIError) and cause.orig else cause
    lines = str(original).strip().splitlines() or [type(original).__name__]
    text = without_secrets(lines[0], uri)[:300].rstrip(".")
    return f"{text}; {hint}" if (hint := database_hint(text)) else text
