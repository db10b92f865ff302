"""Calls on the database of a sweep's studies: repeated while it does not answer, and its errors said in one sentence.

Every call made through here can be repeated without harm: what was written before an answer was lost is written again
with the same value, and a trial that was created by a lost answer has no claim and is given to the next who asks.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from optuna.exceptions import ExperimentalWarning, StorageInternalError
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, PendingRollbackError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from training.contract.errors import StorageError

Result = TypeVar("Result")

_SILENT_SECONDS = 2.0
"""Shorter waits are not worth a line."""
_LONGEST_PAUSE_SECONDS = 15.0
_LASTING = ("no such table", "no such column", "readonly database", "unable to open", "permission denied")
"""What an operational error of a database says that another try would not change."""


class Patience:
    """How long a database may be silent, and who is told."""

    def __init__(
        self,
        name: str,
        *,
        patience_seconds: float = 3600.0,
        say: Callable[[str], None] = print,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        """Address of the database, without a password."""
        self._patience_seconds = patience_seconds
        self._say, self._sleep, self._clock = say, sleep, clock

    def call(self, method: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
        """Return `method(*args, **kwargs)`, trying again while the database does not answer; the wait is said once.

        Raises `StorageError` when it refuses, when a study is gone, or after `patience_seconds`.
        """
        started, pause_seconds, is_said = self._clock(), 0.25, False
        while True:
            try:
                answer = quietly(method, *args, **kwargs)
            except KeyError as error:
                raise self._gone(error) from error
            except (StorageInternalError, SQLAlchemyError, OSError) as error:
                waited_seconds = self._clock() - started
                if is_final(error):
                    raise StorageError(f"The storage {self.name} cannot be used: {reason(error)}.") from error
                if waited_seconds >= self._patience_seconds:
                    silent = f"The storage {self.name} has not answered for {waited_seconds:.0f} s"
                    raise StorageError(f"{silent}: {reason(error)}.") from error
                if waited_seconds >= _SILENT_SECONDS and not is_said:
                    is_said = True
                    self._say(f"The storage {self.name} does not answer; jobs run on, and nothing is lost.")
                self._sleep(min(pause_seconds, max(0.0, self._patience_seconds - waited_seconds)))
                pause_seconds = min(2 * pause_seconds, _LONGEST_PAUSE_SECONDS)
            else:
                if is_said:
                    self._say(f"The storage {self.name} answers again.")
                return answer

    def _gone(self, error: KeyError) -> Exception:
        # Optuna's word for a row that it does not find; any other KeyError is a fault of ours.
        if error.args != ("Record does not exist.",):
            return error
        return StorageError(f"The sweep's study is no longer in {self.name}: somebody deleted it.")


def quietly(method: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
    """Return `method(*args, **kwargs)` without Optuna's warnings of what we do on purpose.

    Heartbeats are experimental, and ours are recorded beside `ask` and `tell`, where Optuna records none.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        warnings.filterwarnings("ignore", message="Heartbeat of storage is supposed to be used with Study.optimize")
        return method(*args, **kwargs)


def is_final(error: Exception) -> bool:
    """Tell whether another try would not change the database's answer."""
    cause = error.__cause__ if isinstance(error, StorageInternalError) else error
    if isinstance(cause, DBAPIError) and cause.connection_invalidated:
        return False
    if isinstance(cause, (PoolTimeout, PendingRollbackError)) or not isinstance(cause, SQLAlchemyError):
        return False
    if isinstance(cause, (OperationalError, InterfaceError)):
        return any(words in str(cause.orig).lower() for words in _LASTING)
    return True


def reason(error: BaseException) -> str:
    """Return the first line of what the database or its driver said, without a password and a full stop."""
    from tracking.server.errors import without_credentials  # it loads mlflow, which only an error is worth

    cause = error.__cause__ if isinstance(error, StorageInternalError) and error.__cause__ else error
    told = cause.orig if isinstance(cause, DBAPIError) and cause.orig else cause
    lines = str(told).strip().splitlines() or [type(told).__name__]
    return without_credentials(lines[0])[:300].rstrip(".")


def shown(url: URL) -> str:
    """Return an address as people may read it: without its password."""
    return url.difference_update_query(["password", "sslpassword"]).render_as_string(hide_password=True)
