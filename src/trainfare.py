"""Entry points of the environment: the command `trainfare`, and the SQLite store of MLflow.

This folder is all that the editable install puts on the import path. The packages of the project (`models`, `reports`
and so on) stay invisible to other processes of the environment: a job imports its own modules of these names, as it
does on AWS.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from urllib.parse import unquote

REPOSITORY = Path(__file__).resolve().parent.parent


def main() -> None:
    """Run the command line of the repository that holds this file."""
    if not (REPOSITORY / "experiments" / "__main__.py").is_file():
        sys.exit("error: trainfare runs from its repository: run `make setup` there.")
    sys.path.insert(0, str(REPOSITORY))
    from experiments.__main__ import run

    run()


def sqlite_store(store_uri: str, artifact_uri: str | None = None) -> object:
    """Return MLflow's store of a SQLite database, once the database is complete.

    MLflow calls this in place of its own function, in every process that opens a store, such as `mlflow run`. If it
    created the tables itself, a kill meanwhile would leave a database that no MLflow can open.
    """
    from mlflow.tracking._tracking_service.utils import _get_sqlalchemy_store

    if not _has_newest_tables(store_uri):
        _prepare(store_uri)
    # MLflow creates the database's folder, under the name that the address has without decoding.
    path, sign, query = store_uri.partition("?")
    return _get_sqlalchemy_store(f"{unquote(path)}{sign}{query}", artifact_uri)


def _has_newest_tables(store_uri: str) -> bool:
    """Return whether the last of MLflow's migrations has ended. Any doubt is left to `_prepare`."""
    from mlflow.store.db.utils import _get_latest_schema_revision

    path = Path(unquote(store_uri.removeprefix("sqlite:///").partition("?")[0]))
    try:
        if not path.is_file():
            return False
        with closing(sqlite3.connect(path, timeout=60.0)) as database:
            return database.execute("SELECT version_num FROM alembic_version").fetchall() == [
                (_get_latest_schema_revision(),)
            ]
    except (OSError, sqlite3.Error):
        return False


def _prepare(store_uri: str) -> None:
    """Create or check the database in a process of its own, which may import our packages.

    Raises MLflow's ExecutionException with the reason, which `mlflow run` prints as one line.
    """
    from mlflow.exceptions import ExecutionException

    paths = [str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])]
    process = subprocess.run(
        [sys.executable, "-P", "-m", "tracking.server.database"],
        env={**os.environ, "MLFLOW_TRACKING_URI": store_uri, "PYTHONPATH": os.pathsep.join(paths)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
    )
    if process.returncode != 0:
        lines = process.stderr.strip().splitlines() or [f"its preparation ended with status {process.returncode}"]
        raise ExecutionException(lines[-1].removeprefix("error: "))


if __name__ == "__main__":
    main()
