"""Errors of the system and of databases reach a user as one sentence."""

from __future__ import annotations

import errno
import sqlite3

import pytest

from experiments.running.system_errors import sentence


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device", "/data/x"),
            "/data/x: no space left on device; free some space, then run the same command again: it resumes.",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", b"/data/y"),
            "/data/y: permission denied; "
            "check the file's owner and mode, or set TRAINFARE_HOME to a folder of your own.",
        ),
        (OSError(errno.EXDEV, "x", "/a", None, "/b"), "/b: invalid cross-device link."),
        (ConnectionResetError("the peer is gone"), "the peer is gone."),
        (
            sqlite3.OperationalError("disk I/O error\nmore"),
            "a database cannot be used: disk I/O error. Run the same command again: it resumes.",
        ),
    ],
)
def test_the_sentence_names_the_place_and_what_to_do(error: Exception, text: str) -> None:
    assert sentence(error) == text


def test_a_bug_keeps_its_traceback() -> None:
    assert sentence(ValueError("x")) is None
