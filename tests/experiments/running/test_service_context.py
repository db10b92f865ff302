"""Checks before a group or a run is opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.conftest import CommandLine


@pytest.fixture
def command_line(tmp_path: Path) -> CommandLine:
    """The command line on a SQLite store."""
    return CommandLine(tmp_path, f"sqlite:///{tmp_path / 'mlflow.db'}")


@pytest.mark.slow
def test_an_unsafe_folder_of_locks_is_refused_before_a_run_is_opened(
    command_line: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unsafe = tmp_path / "slots"
    unsafe.mkdir()
    unsafe.chmod(0o777)
    monkeypatch.setenv("TRAINFARE_SLOTS", str(unsafe))
    refused = command_line("train", {"experiment": "demo", "data.train_rows": 60, "data.validation_rows": 20})
    assert refused.returncode == 2, refused.stdout + refused.stderr
    assert f"TRAINFARE_SLOTS {unsafe} is not safe for the locks of cores and GPUs: other users may" in refused.stderr
    assert command_line.runs() == []
    assert list((tmp_path / ".trainfare").glob("jobs/*")) == []
