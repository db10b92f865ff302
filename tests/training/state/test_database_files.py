"""SQLite databases of killed writers."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from training.state.database_files import count_rows, tables

KILLED_WRITER = """
import os, signal, sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("PRAGMA cache_size = 1")  # so that the transaction reaches the file before it is committed
database.execute("BEGIN IMMEDIATE")
database.executemany("INSERT INTO rows VALUES (?)", (("x" * 1000,) for _ in range(1000)))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_transaction_of_a_killed_writer_is_rolled_back(tmp_path: Path) -> None:
    """A connection that may only read cannot roll it back, and fails with `attempt to write a readonly database`."""
    path = tmp_path / "100 % of it?.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE rows (text TEXT)")
        database.execute("INSERT INTO rows VALUES ('committed')")
    subprocess.run([sys.executable, "-c", KILLED_WRITER, path], check=False)
    assert path.with_name(f"{path.name}-journal").stat().st_size > 0
    assert tables(path) == {"rows"}
    assert count_rows(path, "rows") == 1


def test_a_missing_file_has_no_tables_and_is_not_created(tmp_path: Path) -> None:
    path = tmp_path / "missing.db"
    assert tables(path) == set()
    assert not path.exists()
