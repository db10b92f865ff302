"""Reasons of errors of the system, and what to do about them."""

from __future__ import annotations

import errno
import shutil

import pytest

from state.errors import database_reason, system_reason


def test_a_missing_right_names_the_setting_of_another_place() -> None:
    error = PermissionError(errno.EACCES, "Permission denied", "/data/y")
    assert system_reason(error) == (
        "permission denied; check its owner and mode, or set TRAINFARE_HOME to a folder of your own"
    )
    assert system_reason(error, variable="--output", place="a file", subject="/data/y") == (
        "/data/y: permission denied; check its owner and mode, or set --output to a file of your own"
    )


def test_an_error_of_a_copied_tree_has_a_reason() -> None:
    error = shutil.Error([("/a", "/b", "[Errno 28] No space left on device: '/b'")])
    assert system_reason(error).startswith("no space left on device; free some space")


def test_an_unknown_error_keeps_its_message() -> None:
    assert system_reason(ConnectionResetError("the peer is gone")) == "the peer is gone"


@pytest.mark.parametrize(
    ("reason", "hint"),
    [
        ("(sqlite3.OperationalError) database or disk is full", "free some space"),
        ('could not extend file "base/1": No space left on device', "free some space"),
        ("attempt to write a readonly database", "check the owner"),
        ("database disk image is malformed", "the file or its disk may be damaged: restore it"),
    ],
)
def test_errors_of_databases_have_a_hint(reason: str, hint: str) -> None:
    assert database_reason(f"{reason}.").startswith(f"{reason}; {hint}")


def test_an_unknown_error_of_a_database_has_none() -> None:
    assert database_reason("deadlock detected") == "deadlock detected"
    assert database_reason("deadlock detected", "try again") == "deadlock detected; try again"
