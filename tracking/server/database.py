"""Create the SQLite database of a tracking store, so that a kill never leaves a half-made one.

MLflow creates its tables in place, by dozens of migrations that SQLite does not undo. If the process is killed
meanwhile, or two processes create them at once, no MLflow can open the database again. So the database is made
under a temporary name, with a lock, and renamed.

`python -m tracking.server.database` prepares the database of MLFLOW_TRACKING_URI. `src/trainfare.py` calls it for
MLflow's own commands, which open the database before our code runs.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from urllib.parse import unquote

from state.errors import system_reason
from state.folders import create_database, database_exists, lock_database
from state.permissions import set_umask
from training.contract.errors import InputError, TrackingError, TrainfareError

_PREFIX = "sqlite:///"


def database_file(uri: str) -> Path | None:
    """Return the path of the SQLite database that a tracking URI names, or None for any other store."""
    if not uri.startswith(_PREFIX):
        return None
    return Path(unquote(uri.removeprefix(_PREFIX).partition("?")[0])).absolute()


def prepare(uri: str) -> None:
    """Create the database if it is missing. Other stores are left alone.

    Raises `TrackingError` if the database cannot be used, with the reason, and `InputError` for a path that MLflow
    misreads.
    """
    path = database_file(uri)
    if path is None:
        return
    if "?" in str(path) or unquote(str(path)) != str(path):
        raise InputError(
            f"The tracking database {path} has ? or an escape such as %20 in its path, which MLflow misreads: rename "
            "the folder, or set MLFLOW_TRACKING_URI to another database."
        )
    try:
        if not database_exists(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with lock_database(path):
                if not database_exists(path):  # another process may just have created it
                    create_database(path, _initialize)
        revision = _revision(path)
    except OSError as error:
        reason = system_reason(error, variable="MLFLOW_TRACKING_URI", place="a database in a folder")
        raise TrackingError(f"The tracking database {path} cannot be created: {reason}.") from error
    except sqlite3.Error as error:
        raise TrackingError(
            f"The tracking database {path} cannot be read: {error}. If it is damaged, move it away; "
            "the next command creates a new one."
        ) from error
    from mlflow.store.db.utils import _get_latest_schema_revision

    if revision != (newest := _get_latest_schema_revision()):
        raise TrackingError(
            f"The tracking database {path} was made by another MLflow version or another program, or is incomplete "
            f"(revision {revision} instead of {newest}). Back it up and run `mlflow db upgrade {_PREFIX}{path}`, or "
            "move it away; the next command then creates a new one."
        )


def _initialize(path: Path) -> None:
    from mlflow.store.db.utils import _initialize_tables
    from sqlalchemy import URL, create_engine

    engine = create_engine(URL.create("sqlite", database=str(path)))
    previous = logging.root.manager.disable
    logging.disable(logging.INFO)  # MLflow prints two lines about tables, which nobody needs to read
    try:
        _initialize_tables(engine)
    finally:
        engine.dispose()
        logging.disable(previous)


def _revision(path: Path) -> str:
    if not path.is_file():  # SQLite would wait for a pipe for ever
        raise sqlite3.DatabaseError("it is not a regular file")
    with closing(sqlite3.connect(path, timeout=60.0)) as database:
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchall():
            return "none"
        return "".join(str(each) for (each,) in database.execute("SELECT version_num FROM alembic_version")) or "none"


if __name__ == "__main__":
    try:
        set_umask()
        prepare(os.environ.get("MLFLOW_TRACKING_URI") or f"{_PREFIX}mlflow.db")
    except TrainfareError as failure:
        sys.exit(f"error: {failure}")
