"""Locks for work that one worker of a sweep does at a time, in the database server or beside the database file.

Workers hold the lock for moments, to claim a trial, and a lease for hours: each kind of longer work (calibration,
repeats of the winner) has its own lease.

Claiming a trial takes several steps (count, sample, claim). The lock makes them atomic, so that no two workers get the
same point or the same free job slot. This saves cost; it is not needed for safety. A worker that is paused while it
holds the server's lock loses it. The trial's state and the job's name still prevent a second start of the job.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from sqlalchemy import text
from sqlalchemy.engine import Engine

from training.contract.retry import RetryPolicy

_PAUSED_SECONDS = 60
"""A holder that is silent for longer (a lost host, a paused process) loses the server's lock."""

Lock = Callable[[str], AbstractContextManager[bool]]
"""Function from a name to a context manager that yields immediately: True if this process now holds the lock."""


def file_lock(database: Path) -> Lock:
    """Return the lock beside an SQLite file. The kernel releases it when the process that holds it ends."""

    @contextmanager
    def lock(name: str) -> Iterator[bool]:
        with _locked(database.with_name(f"{database.name}.lock")) as is_held:
            yield is_held

    return lock


def file_lease(database: Path) -> Lock:
    """Return the lease beside an SQLite file: one file per name. It may be held for hours."""

    @contextmanager
    def lease(name: str) -> Iterator[bool]:
        with _locked(database.with_name(f"{database.name}.{_key(name):x}.lease")) as is_held:
            yield is_held

    return lease


@contextmanager
def _locked(path: Path) -> Iterator[bool]:
    # No fallback to a marker file on a file system without locks: the marker of a killed worker would stay.
    lock = FileLock(path, blocking=False, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


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


@contextmanager
def wait_for_lock(lock: Lock, name: str, seconds: float) -> Iterator[None]:
    """Hold a lock that others hold only for moments. Raises `TimeoutError` after `seconds`."""
    for _ in RetryPolicy(first_pause_seconds=0.02, factor=1.0, total_seconds=seconds).attempts():
        with lock(name) as is_held:
            if is_held:
                yield
                return
    raise TimeoutError(f"another process has held the lock for {seconds:.0f} s")


def _key(name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"trainfare {name}".encode()).digest()[:8], "big", signed=True)
