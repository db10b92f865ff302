"""A database as MLflow leaves it when it is killed while it creates the tables."""

from __future__ import annotations

import sqlite3
from pathlib import Path


def half_made(path: Path) -> None:
    """Leave what MLflow leaves if it is killed after its first tables."""
    from mlflow.store.db.utils import InitialBase
    from sqlalchemy import create_engine

    engine = create_engine(f"sqlite:///{path}")
    InitialBase.metadata.create_all(engine)
    engine.dispose()
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
        database.execute("CREATE TABLE model_versions (name VARCHAR(256))")  # its migration was cut off
    database.close()
