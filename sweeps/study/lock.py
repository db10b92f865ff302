"""What one worker at a time does: a lock in the database server, or beside the database's file.

Asking for trials takes moments, under a lock; what takes long (timing, repeats of the winner) has a lease of its name.

Asking takes several steps (count, sample, claim), and the lock makes them one: neither a point nor the room for a job
is given twice. It is a matter of economy, not of safety. Who is paused while he holds the server's lock loses it, and
then a trial's state and the job's name still keep a job from being started twice.
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
"""A holder that says nothing for so long (a host that is gone, a process that was paused) loses the server's lock."""

Lock = Callable[[str], AbstractContextManager[bool]]
"""Enter it with a name: yields at once whether it is held."""


def file_lock(database: Path) -> Lock:
    """Return the lock beside an SQLite file; the kernel lets it go with the process that holds it."""

    @contextmanager
    def lock(name: str) -> Iterator[bool]:
        with _locked(database.with_name(f"{database.name}.lock")) as is_held:
            yield is_held

    return lock


def file_lease(database: Path) -> Lock:
    """Return the lease beside an SQLite file: a lock of each name, which may be held for hours."""

    @contextmanager
    def lease(name: str) -> Iterator[bool]:
        with _locked(database.with_name(f"{database.name}.{_key(name):x}.lease")) as is_held:
            yield is_held

    return lease


@contextmanager
def _locked(path: Path) -> Iterator[bool]:
    # Not replaced by a marker file where the file system has no locks: the marker of a killed worker would stay.
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
    """Return PostgreSQL's advisory lock; it ends with the transaction, and the transaction with its holder."""

    @contextmanager
    def lock(name: str) -> Iterator[bool]:
        with engine.begin() as connection:
            connection.execute(text(f"SET LOCAL idle_in_transaction_session_timeout = '{_PAUSED_SECONDS}s'"))
            found = connection.execute(text("SELECT pg_try_advisory_xact_lock(:key)"), {"key": _key(name)})
            yield bool(found.scalar())

    return lock


def server_lease(engine: Engine) -> Lock:
    """Return PostgreSQL's advisory lock of a session, which may be held for hours; it ends with its holder.

    A server that restarts forgets it. What is done under it must therefore bear being done twice at once.
    """

    @contextmanager
    def lease(name: str) -> Iterator[bool]:
        with engine.connect() as connection:
            connection = connection.execution_options(isolation_level="AUTOCOMMIT")
            # A host that is gone without a word is noticed after two minutes.
            for setting, seconds in (("idle", 60), ("interval", 20), ("count", 3)):
                connection.execute(text(f"SET tcp_keepalives_{setting} = {seconds}"))
            found = connection.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": _key(name)})
            try:
                yield bool(found.scalar())
            finally:
                connection.invalidate()  # not to the pool: the session's end is what gives the lock back

    return lease


@contextmanager
def waiting(lock: Lock, name: str, seconds: float) -> Iterator[None]:
    """Hold a lock that others hold only for moments. Raises `TimeoutError` where they keep it for `seconds`."""
    for _ in RetryPolicy(first_pause_seconds=0.02, factor=1.0, total_seconds=seconds).attempts():
        with lock(name) as is_held:
            if is_held:
                yield
                return
    raise TimeoutError(f"another process has held the lock for {seconds:.0f} s")


def _key(name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"trainfare {name}".encode()).digest()[:8], "big", signed=True)
