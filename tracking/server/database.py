"""Create and migrate the SQLite database of a tracking store, so that a kill never leaves a half-made one.

MLflow creates its tables in place, by dozens of migrations that SQLite does not undo. If the process is killed
meanwhile, or two processes create them at once, no MLflow can open the database again.

`python -m tracking.server.database` prepares the database of MLFLOW_TRACKING_URI. `src/trainfare.py` calls it for
MLflow's own commands, which open the database before our code runs.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import unquote

from training.contract.errors import InputError, TrackingError, TrainfareError
from training.state.database_files import count_rows, create, lock_database, replace, set_aside, tables
from training.state.system_errors import system_reason
from training.state.umask import set_umask

_PREFIX = "sqlite:///"
_DATA = ("runs", "registered_models", "trace_info")
"""Tables with rows of a user. A database without any was never used."""

_FIRST = {"experiments", "runs", "metrics", "params", "tags"}
"""Tables that MLflow creates before all others."""


def database_file(uri: str) -> Path | None:
    """Return the path of the SQLite database that a tracking URI names, or None for any other store."""
    if not uri.startswith(_PREFIX):
        return None
    return Path(unquote(uri.removeprefix(_PREFIX).partition("?")[0])).absolute()


def prepare(uri: str, echo: Callable[[str], None]) -> None:
    """Create the database if it is missing, and migrate it if it is of an earlier MLflow. Other stores are left alone.

    A half-made database without data is set aside, and a migrated one is kept as a copy; `echo` prints which. Raises
    `TrackingError` if the database cannot be used, with the reason, and `InputError` for a path that MLflow misreads.
    """
    path = database_file(uri)
    if path is None:
        return
    _check_path(path)
    if is_complete(path):
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with lock_database(path):
            if not is_complete(path):  # another process may just have created it
                _make_complete(path, echo)
    except OSError as error:
        reason = system_reason(error, variable="MLFLOW_TRACKING_URI", place="a database in a folder")
        raise TrackingError(f"The tracking database {path} cannot be created: {reason}.") from error


def _check_path(path: Path) -> None:
    """Raise `InputError` for a path that is different once it is decoded: MLflow would write to that other path."""
    if "?" in str(path) or unquote(str(path)) != str(path):
        raise InputError(
            f"The tracking database {path} has ? or an escape such as %20 in its path, which MLflow misreads: rename "
            "the folder, or set MLFLOW_TRACKING_URI to another database."
        )


def is_complete(path: Path) -> bool:
    """Return whether the database has all of MLflow's tables and its newest revision."""
    try:
        present = tables(path)
        return bool(present) and _expected_tables() <= present and _revision(path) == _newest_revision()
    except sqlite3.Error as error:
        raise TrackingError(
            f"The tracking database {path} cannot be read: {error}. If it is damaged, move it away; "
            "the next command creates a new one."
        ) from error


def _make_complete(path: Path, echo: Callable[[str], None]) -> None:
    present, revision = tables(path), _revision(path)
    if revision is not None and not _is_known(revision):
        raise TrackingError(
            f"The tracking database {path} was written by a newer MLflow than the installed one (revision {revision}). "
            "Install that version, or set MLFLOW_TRACKING_URI to another database."
        )
    if present and (data := [name for name in _DATA if name in present and count_rows(path, name)]):
        _migrate(path, data, echo)
        return
    if present - {"alembic_version"} and not present & _FIRST:
        raise TrackingError(
            f"The tracking database {path} belongs to another program: it has the tables "
            f"{', '.join(sorted(present)[:3])}. Set MLFLOW_TRACKING_URI to another database."
        )
    if present:
        aside = set_aside(path)
        echo(f"{path} was left half-made by a command that was killed. It has no runs and is now {aside.name}.")
    create(path, _initialize)


def _migrate(path: Path, data: list[str], echo: Callable[[str], None]) -> None:
    kept = path.with_name(f"{path.name}.before-{_newest_revision()}")
    try:
        replace(path, _upgrade, kept)
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise TrackingError(
            f"The tracking database {path}, which has {' and '.join(data)}, is of another MLflow or half-made, and "
            f"cannot be migrated: {reason}. It is unchanged: restore a copy of it, or set MLFLOW_TRACKING_URI to "
            "another database."
        ) from error
    echo(f"{path} is migrated to this version of MLflow. The earlier database is kept as {kept.name}.")


def _initialize(path: Path) -> None:
    from mlflow.store.db.utils import _initialize_tables

    with _engine(path) as engine:
        _initialize_tables(engine)


def _upgrade(path: Path) -> None:
    from mlflow.store.db.utils import _upgrade_db
    from mlflow.store.tracking.dbmodels.initial_models import Base as InitialBase

    with _engine(path) as engine:
        InitialBase.metadata.create_all(engine)
        _upgrade_db(engine)


@contextmanager
def _engine(path: Path) -> Iterator[object]:
    from sqlalchemy import URL, create_engine

    # MLflow prints two lines about tables, which nobody needs to read.
    loggers = [logging.getLogger(name) for name in ("mlflow.store.db.utils", "alembic")]
    levels = [logger.level for logger in loggers]
    engine = create_engine(URL.create("sqlite", database=str(path)))
    try:
        for logger in loggers:
            logger.setLevel(logging.WARNING)
        yield engine
    finally:
        engine.dispose()
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _expected_tables() -> set[str]:
    import mlflow.store.model_registry.dbmodels.models
    import mlflow.store.tracking.dbmodels.models  # noqa: F401
    from mlflow.store.db.base_sql_model import Base

    return set(Base.metadata.tables)


def _revision(path: Path) -> str | None:
    if "alembic_version" not in tables(path):
        return None
    with closing(sqlite3.connect(path, timeout=60.0)) as database:
        row = database.execute("SELECT version_num FROM alembic_version").fetchone()
    return str(row[0]) if row else None


def _newest_revision() -> str:
    from mlflow.store.db.utils import _get_latest_schema_revision

    return str(_get_latest_schema_revision())


def _is_known(revision: str) -> bool:
    import mlflow.store.db_migrations

    folder = Path(mlflow.store.db_migrations.__path__[0]) / "versions"
    return any(f'revision = "{revision}"' in path.read_text("utf-8") for path in folder.glob("*.py"))


if __name__ == "__main__":
    try:
        set_umask()
        prepare(os.environ.get("MLFLOW_TRACKING_URI") or f"{_PREFIX}mlflow.db", print)
    except TrainfareError as failure:
        sys.exit(f"error: {failure}")
