"""Storage of a sweep's studies: PostgreSQL, or SQLite for workers on one machine."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import RDBStorage
from sqlalchemy import event
from sqlalchemy.engine import URL, create_engine, make_url
from sqlalchemy.exc import ArgumentError

from sweeps.study.lock import Lock, file_lease, file_lock, server_lease, server_lock, wait_for_lock
from sweeps.study.retry_policy import StorageRetries, reason
from training.contract.errors import InputError, StorageError
from training.contract.plain_text import without_secrets
from training.state.folders import create_database, database_exists

HEARTBEAT_SECONDS = 15
GRACE_SECONDS = 60
"""Time without a heartbeat after which another worker may continue a trial."""

_OPENING_SECONDS = 5.0
"""Time limit of the first calls, before anything is started."""
_CREATING_SECONDS = 60.0
"""Longest wait while another worker creates the tables."""

_ENGINE: dict[str, dict[str, Any]] = {
    # Seconds that SQLite waits for another process's transaction.
    "sqlite": {"connect_args": {"timeout": 60.0}},
    # Replaces connections from before a restart of the server, and detects a host that disappeared.
    "postgresql": {
        "pool_pre_ping": True,
        "connect_args": {
            "connect_timeout": 10,
            "keepalives_idle": 30,
            "keepalives_interval": 10,
            "keepalives_count": 3,
            "application_name": "trainfare",
        },
    },
}
"""Engine options by kind of database. The keys are the supported kinds."""

_DRIVERS = {"postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}


@dataclass(frozen=True, kw_only=True)
class Storage:
    """Database of studies, with its retries and locks."""

    rdb: RDBStorage
    retries: StorageRetries
    """Wrapper of every call on `rdb`."""
    lock: Lock
    """Lock of the worker that claims a trial."""
    lease: Lock
    """Lock of the worker that does the work named by the lease."""

    def close(self) -> None:
        """Close this thread's connections."""
        self.rdb.remove_session()
        self.rdb.engine.dispose()


def open_storage(
    url: str,
    *,
    heartbeat_seconds: int = HEARTBEAT_SECONDS,
    grace_seconds: int = GRACE_SECONDS,
    retry_seconds: float = 3600.0,
    echo: Callable[[str], None] = print,
) -> Storage:
    """Return the storage at an address such as `sqlite:///sweeps.db` or `postgresql://user@host/sweeps`.

    Raises `InputError` for a malformed address. Raises `StorageError` within seconds for a database that cannot be
    used, before anything is started.
    """
    address = database_url(url)
    name, engine_options = without_secrets(url, url), _ENGINE[address.get_backend_name()]
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        lock, lease = _locks(address, engine_options)
        rdb = StorageRetries(url, retry_seconds=_OPENING_SECONDS, echo=lambda _: None).call(
            _opened, address, engine_options, lock, heartbeat_seconds, grace_seconds
        )
    except ImportError as error:
        raise InputError(f"storage {name} needs the driver {address.drivername}, which is not installed") from error
    except (RuntimeError, sqlite3.Error) as error:  # a RuntimeError is Optuna's, for tables of another version
        raise StorageError(f"The storage {name} cannot be used: {reason(error, url)}.") from error
    return Storage(rdb=rdb, retries=StorageRetries(url, retry_seconds=retry_seconds, echo=echo), lock=lock, lease=lease)


def database_url(url: str) -> URL:
    """Return the address with the installed driver. Raises `InputError` for a malformed or unsupported address."""
    name = without_secrets(url, url)
    try:
        address = make_url(url)
        address = address.set(drivername=_DRIVERS.get(address.drivername, address.drivername))
        kind = address.get_backend_name()
    except (ArgumentError, ValueError) as error:
        raise InputError(
            "storage must be the address of a database, such as sqlite:///sweeps.db or postgresql://user@host/sweeps"
        ) from error
    if kind not in _ENGINE:
        raise InputError(f"storage {name} is a {kind} database, but sweeps need {' or '.join(_ENGINE)}")
    if kind == "sqlite":
        _check_file(address, name)
    return address


def sqlite_url(path: Path) -> str:
    """Return the address of a SQLite database, with special characters of its path escaped."""
    return URL.create("sqlite", database=str(path)).render_as_string(hide_password=False)


def _check_file(address: URL, name: str) -> None:
    if address.database in (None, "", ":memory:"):
        raise InputError(f"storage {name} does not name a file: use an address such as sqlite:///sweeps.db")
    folder = Path(str(address.database)).resolve().parent
    if not folder.is_dir():
        raise InputError(f"storage {name}: the folder {folder} does not exist")


def _locks(address: URL, engine_options: dict[str, Any]) -> tuple[Lock, Lock]:
    """Return the lock and the lease for a database."""
    if address.get_backend_name() == "sqlite":
        file = Path(str(address.database)).resolve()
        return file_lock(file), file_lease(file)
    engine = create_engine(address, **engine_options)
    return server_lock(engine), server_lease(engine)


def _opened(
    address: URL, engine_options: dict[str, Any], lock: Lock, heartbeat_seconds: int, grace_seconds: int
) -> RDBStorage:
    # Two workers that create the same tables at the same time would both fail.
    with wait_for_lock(lock, "tables", _CREATING_SECONDS):
        if address.get_backend_name() == "sqlite":
            file = Path(str(address.database)).resolve()
            if not database_exists(file):
                create_database(file, lambda new: RDBStorage(sqlite_url(new)).engine.dispose())
        rdb = RDBStorage(
            address.render_as_string(hide_password=False),
            engine_kwargs=dict(engine_options),
            heartbeat_interval=heartbeat_seconds,
            grace_period=grace_seconds,
        )
    if rdb.engine.name == "sqlite":
        _begin_as_writer(rdb)
    return rdb


def _begin_as_writer(rdb: RDBStorage) -> None:
    """Begin each SQLite transaction as a writer.

    If two transactions both read first and write later, one fails immediately with `database is locked`, whatever its
    timeout. Source: sqlite.org/lang_transaction.html, and SQLAlchemy's page on pysqlite.
    """

    @event.listens_for(rdb.engine, "connect")
    def connect(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # otherwise Python begins transactions itself

    @event.listens_for(rdb.engine, "begin")
    def begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    rdb.engine.dispose()  # drops connections that were opened without the listeners
