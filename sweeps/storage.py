"""Storage of a sweep's studies (PostgreSQL, or SQLite for workers on one machine), with its locks and retries.

Workers hold the lock for moments, to claim a trial. That takes several steps (count, sample, claim). The lock makes
them atomic, so that no two workers get the same point or the same free job slot. This saves cost; it is not needed for
safety. A worker that is paused while it holds the server's lock loses it. The trial's state and the job's name still
prevent a second start of the job. Workers hold a lease for hours, for longer work of one worker (opening, calibration,
repeats of the winner). That work must be safe to repeat: the next worker finds the completed jobs and continues.

All calls on the database can be repeated safely. A value whose confirmation was lost is written again. A trial whose
creation was not confirmed has no claim, and the next worker gets it.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import optuna
from filelock import FileLock, Timeout
from optuna.exceptions import ExperimentalWarning, StorageInternalError
from optuna.storages import RDBStorage
from sqlalchemy import event, text
from sqlalchemy.engine import URL, Engine, create_engine, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    InterfaceError,
    OperationalError,
    PendingRollbackError,
    SQLAlchemyError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout

from state.errors import database_reason
from state.folders import create_database, database_exists
from training.contract.errors import InputError, StorageError
from training.contract.plain_text import without_secrets
from training.contract.retry import RetryPolicy

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
_PAUSED_SECONDS = 60
"""A holder that is silent for longer (a lost host, a paused process) loses the server's lock."""
Lock = Callable[[str], AbstractContextManager[bool]]
"""Function from a name to a context manager that yields immediately: True if this process now holds the lock."""
Result = TypeVar("Result")
POLL_SECONDS = 1.0
SILENT_LOOKS = 3
"""Number of failed attempts after which the wait is reported."""
_SILENT_SECONDS = 2.0
"""Shorter waits are not reported."""
_PERMANENT_FAILURES = ("no such table", "no such column", "readonly database", "unable to open", "permission denied")
"""Parts of the messages of operational errors that occur again at the next attempt."""
_DATABASE_ERRORS = (StorageInternalError, SQLAlchemyError, OSError)


@dataclass(frozen=True, kw_only=True)
class Storage:
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
        if address.get_backend_name() == "sqlite":
            lock, lease = file_locks(Path(str(address.database)).resolve())
        else:
            engine = create_engine(address, **engine_options)
            lock, lease = server_lock(engine), server_lease(engine)
        rdb = StorageRetries(url, retry_seconds=_OPENING_SECONDS, echo=lambda _: None).call(
            _opened, address, engine_options, lock, heartbeat_seconds, grace_seconds
        )
    except ImportError as error:
        raise InputError(f"storage {name} needs the driver {address.drivername}, which is not installed") from error
    except (RuntimeError, sqlite3.Error) as error:  # a RuntimeError is Optuna's, for tables of another version
        raise StorageError(f"The storage {name} cannot be used: {reason(error, url)}.") from error
    return Storage(rdb=rdb, retries=StorageRetries(url, echo=echo), lock=lock, lease=lease)


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
        if address.database in (None, "", ":memory:"):
            raise InputError(f"storage {name} does not name a file: use an address such as sqlite:///sweeps.db")
        folder = Path(str(address.database)).resolve().parent
        if not folder.is_dir():
            raise InputError(f"storage {name}: the folder {folder} does not exist")
    return address


def sqlite_url(path: Path) -> str:
    """Return the address of a SQLite database, with special characters of its path escaped."""
    return URL.create("sqlite", database=str(path)).render_as_string(hide_password=False)


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


@contextmanager
def hold_lease(storage: Storage, name: str, echo: Callable[[str], None]) -> Iterator[None]:
    """Hold the lease of a name. Prints one line if another worker holds it for longer."""
    looks = 0
    while True:
        with storage.lease(name) as is_held:
            if is_held:
                yield
                return
        looks += 1
        if looks == SILENT_LOOKS:
            echo(f"Another worker is at {name.rpartition('/')[2]}; waiting for it.")
        time.sleep(POLL_SECONDS)


@contextmanager
def wait_for_lock(lock: Lock, name: str, seconds: float) -> Iterator[None]:
    """Hold a lock that others hold only for moments. Raises `TimeoutError` after `seconds`."""
    for _ in RetryPolicy(first_pause_seconds=0.02, factor=1.0, total_seconds=seconds).attempts():
        with lock(name) as is_held:
            if is_held:
                yield
                return
    raise TimeoutError(f"another process has held the lock for {seconds:.0f} s")


def file_locks(database: Path) -> tuple[Lock, Lock]:
    """Return the lock and the lease next to an SQLite file. The kernel releases both when their holder ends."""

    @contextmanager
    def locked(path: Path) -> Iterator[bool]:
        # No fallback to a marker file on a file system without locks: the marker of a killed worker would stay.
        lock = FileLock(path, blocking=False, fallback_to_soft=False)
        with suppress(Timeout):
            lock.acquire()
        try:
            yield lock.is_locked
        finally:
            lock.release()

    return (
        lambda _: locked(database.with_name(f"{database.name}.lock")),
        lambda name: locked(database.with_name(f"{database.name}.{_key(name):x}.lease")),
    )


def server_lock(engine: Engine) -> Lock:
    """Return PostgreSQL's transaction-level advisory lock. It ends with the transaction, which ends with its holder."""

    @contextmanager
    def lock(name: str) -> Iterator[bool]:
        with engine.begin() as connection:
            connection.execute(text(f"SET LOCAL idle_in_transaction_session_timeout = '{_PAUSED_SECONDS}s'"))
            row = connection.execute(text("SELECT pg_try_advisory_xact_lock(:key)"), {"key": _key(name)})
            yield bool(row.scalar())

    return lock


def server_lease(engine: Engine) -> Lock:
    """Return PostgreSQL's session-level advisory lock, which may be held for hours. It ends with its holder.

    A server that restarts forgets the lock. Work under it must therefore be safe to run twice at the same time.
    """

    @contextmanager
    def lease(name: str) -> Iterator[bool]:
        with engine.connect() as connection:
            connection = connection.execution_options(isolation_level="AUTOCOMMIT")
            # A host that disappears is detected after two minutes.
            for setting, seconds in (("idle", 60), ("interval", 20), ("count", 3)):
                connection.execute(text(f"SET tcp_keepalives_{setting} = {seconds}"))
            row = connection.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": _key(name)})
            try:
                yield bool(row.scalar())
            finally:
                connection.invalidate()  # not back to the pool: the lock is released when the session ends

    return lease


def _key(name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"trainfare {name}".encode()).digest()[:8], "big", signed=True)


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
            if error.args != ("Record does not exist.",):  # Optuna's error of a missing row
                raise
            raise StorageError(
                f"The study of this sweep no longer exists in {self.name}: somebody deleted it."
            ) from error
        except _DATABASE_ERRORS as error:
            if is_transient(error):
                silent = f"The storage {self.name} has not answered for {self._policy.clock() - started:.0f} s"
                raise StorageError(f"{silent}: {reason(error, self._uri)}.") from error
            raise StorageError(f"The storage {self.name} cannot be used: {reason(error, self._uri)}.") from error
        if is_reported:
            self._echo(f"The storage {self.name} answers again.")
        return answer


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
    return database_reason(without_secrets(lines[0], uri)[:300].rstrip("."))
