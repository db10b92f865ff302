"""Check within seconds that a database server answers, before MLflow opens its store there.

MLflow itself tries to connect for more than a minute, and prints each attempt.
"""

from __future__ import annotations

import os

from sqlalchemy.engine import create_engine
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError

from tracking.server.errors import reason
from training.contract.errors import TrackingError
from training.contract.plain_text import without_secrets
from training.contract.retry import RetryPolicy

# Seconds after which PostgreSQL's drivers give up a connection, here and in MLflow.
os.environ.setdefault("PGCONNECT_TIMEOUT", "10")

_RETRY_SECONDS = 3.0


def require_answer(uri: str) -> None:
    """Connect to the PostgreSQL server that a tracking URI names. Other stores are not checked.

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
    policy = RetryPolicy(total_seconds=_RETRY_SECONDS)
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
