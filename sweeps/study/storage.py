"""Where a sweep's studies are kept: Optuna's storage in PostgreSQL, or in SQLite for workers of one machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import RDBStorage
from sqlalchemy import event
from sqlalchemy.engine import URL, create_engine, make_url
from sqlalchemy.exc import ArgumentError

from sweeps.study.lock import Lock, file_lease, file_lock, server_lease, server_lock, waiting
from sweeps.study.retry_policy import StorageRetries, reason, shown
from training.contract.errors import InputError, StorageError

HEARTBEAT_SECONDS = 15
GRACE_SECONDS = 60
"""A trial whose worker has not been heard of for so long is somebody else's to take up."""

_OPENING_SECONDS = 5.0
"""Time limit for the first calls, before anything is started."""
_CREATING_SECONDS = 60.0
"""Until whoever creates the tables is done."""

_ENGINE: dict[str, dict[str, Any]] = {
    # SQLite waits for another process's transaction.
    "sqlite": {"connect_args": {"timeout": 60.0}},
    # A connection from before the server's restart is replaced; one to a host that is gone is noticed.
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
"""What each kind of database's engine is made with; its keys are the kinds that sweeps are kept in."""

_DRIVERS = {"postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}


@dataclass(frozen=True, kw_only=True)
class Storage:
    """A database of studies."""

    rdb: RDBStorage
    retries: StorageRetries
    """Through which it is called."""
    lock: Lock
    """Held by who asks for trials."""
    lease: Lock
    """Held, by its name, by who does what takes long."""

    def close(self) -> None:
        """Let this thread's connections go."""
        self.rdb.remove_session()
        self.rdb.engine.dispose()


def open_storage(
    url: str,
    *,
    heartbeat_seconds: int = HEARTBEAT_SECONDS,
    grace_seconds: int = GRACE_SECONDS,
    retry_seconds: float = 3600.0,
    say: Callable[[str], None] = print,
) -> Storage:
    """Return the storage at an address such as `sqlite:///sweeps.db` or `postgresql://user@host/sweeps`.

    Raises `InputError` for an address that is none, and within seconds `StorageError` for a database that cannot be
    used: this is asked before anything is paid for.
    """
    address = database_url(url)
    name, engine_options = shown(address), _ENGINE[address.get_backend_name()]
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        lock, lease = _locks(address, engine_options)
        rdb = StorageRetries(name, retry_seconds=_OPENING_SECONDS, say=lambda _: None).call(
            _opened, address, engine_options, lock, heartbeat_seconds, grace_seconds
        )
    except ImportError as error:
        raise InputError(f"storage {name}: the driver of {address.drivername} is not installed") from error
    except RuntimeError as error:  # Optuna's, of tables that another version made
        raise StorageError(f"The storage {name} cannot be used: {reason(error)}.") from error
    return Storage(rdb=rdb, retries=StorageRetries(name, retry_seconds=retry_seconds, say=say), lock=lock, lease=lease)


def database_url(url: str) -> URL:
    """Return the address with the driver that is installed. Raises `InputError` for one that is none."""
    try:
        address = make_url(url)
        address = address.set(drivername=_DRIVERS.get(address.drivername, address.drivername))
        kind = address.get_backend_name()
    except (ArgumentError, ValueError) as error:
        raise InputError(
            "storage is not the address of a database: it must be such as sqlite:///sweeps.db or "
            "postgresql://user@host/sweeps"
        ) from error
    if kind not in _ENGINE:
        raise InputError(f"storage {shown(address)}: sweeps are kept in {' or '.join(_ENGINE)}, not in {kind}")
    if kind == "sqlite":
        _check_file(address)
    return address


def _check_file(address: URL) -> None:
    if address.database in (None, "", ":memory:"):
        raise InputError(f"storage {shown(address)} names no file: it must be such as sqlite:///sweeps.db")
    folder = Path(str(address.database)).resolve().parent
    if not folder.is_dir():
        raise InputError(f"storage {shown(address)}: there is no folder {folder}")


def _locks(address: URL, engine_options: dict[str, Any]) -> tuple[Lock, Lock]:
    """Return the lock and the lease of a database."""
    if address.get_backend_name() == "sqlite":
        file = Path(str(address.database)).resolve()
        return file_lock(file), file_lease(file)
    engine = create_engine(address, **engine_options)
    return server_lock(engine), server_lease(engine)


def _opened(
    address: URL, engine_options: dict[str, Any], lock: Lock, heartbeat_seconds: int, grace_seconds: int
) -> RDBStorage:
    with waiting(lock, "tables", _CREATING_SECONDS):  # two that create the same tables at once would both fail
        rdb = RDBStorage(
            address.render_as_string(hide_password=False),
            engine_kwargs=dict(engine_options),
            heartbeat_interval=heartbeat_seconds,
            grace_period=grace_seconds,
        )
    if rdb.engine.name == "sqlite":
        _take_turns(rdb)
    return rdb


def _take_turns(rdb: RDBStorage) -> None:
    """Let each SQLite transaction begin as one that writes.

    One that reads first and writes then fails at once with `database is locked` when another does the same, however
    long it would have waited. Source: sqlite.org/lang_transaction.html, and SQLAlchemy's page on pysqlite.
    """

    @event.listens_for(rdb.engine, "connect")
    def connect(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # Python would begin transactions itself

    @event.listens_for(rdb.engine, "begin")
    def begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    rdb.engine.dispose()  # connections from before
