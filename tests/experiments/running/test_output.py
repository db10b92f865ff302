"""Errors of the system and of databases reach a user as one sentence."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

import pytest

from experiments.running.output import sentence


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device", "/data/x"),
            "/data/x: no space left on device; free some space, for example with `trainfare jobs prune`, "
            "then run the same command again: it resumes.",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", b"/data/y"),
            "/data/y: permission denied; check its owner and mode, or set TRAINFARE_HOME to a folder of your own.",
        ),
        (
            sqlite3.OperationalError("disk I/O error\nmore"),
            "a database cannot be used (the tracking database is {path}): disk I/O error; "
            "the file or its disk may be damaged: restore it from a copy.",
        ),
        (
            sqlite3.OperationalError("database is locked"),
            "a database cannot be used (the tracking database is {path}): database is locked; "
            "run the same command again: it resumes.",
        ),
    ],
)
def test_the_sentence_names_the_place_and_what_to_do(
    error: Exception, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{path}")
    assert sentence(error) == text.format(path=path)


def test_the_secrets_of_a_database_are_not_shown_and_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "postgresql://me:hunter2@db/mlflow")
    text = sentence(sqlite3.OperationalError("cannot reach postgresql://me:hunter2@db/mlflow"))
    assert text is not None
    assert "hunter2" not in text
    assert sentence(ValueError("x")) is None
