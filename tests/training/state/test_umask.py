"""The file mode creation mask of programs that write state."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from training.state.permissions import private_mode

PROGRAM = "import sys; from pathlib import Path; from training.state.permissions import set_umask; set_umask(); "
PROGRAM += "Path(sys.argv[1]).touch()"


def made(path: Path, mask: str | None) -> subprocess.CompletedProcess[str]:
    """Make a file under a mask of 022."""
    environment = {"TRAINFARE_UMASK": mask} if mask else {}
    command = [sys.executable, "-c", PROGRAM, str(path)]
    return subprocess.run(command, cwd=ROOT, env=environment, umask=0o022, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("mask", "mode"), [(None, 0o600), ("0027", 0o640)])
def test_files_are_private_unless_a_mask_is_set(tmp_path: Path, mask: str | None, mode: int) -> None:
    assert made(tmp_path / "file", mask).returncode == 0
    assert (tmp_path / "file").stat().st_mode & 0o777 == mode


@pytest.mark.parametrize("mask", ["rwx", "00077"])
def test_a_wrong_mask_is_refused(tmp_path: Path, mask: str) -> None:
    assert f"TRAINFARE_UMASK is '{mask}'; it must be three octal digits" in made(tmp_path / "file", mask).stderr


def test_a_copy_has_no_more_rights_than_a_new_file(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [private_mode(mode) for mode in (0o755, 0o644, 0o444)] == [0o700, 0o600, 0o600]
    monkeypatch.setenv("TRAINFARE_UMASK", "007")
    assert [private_mode(mode) for mode in (0o755, 0o644, 0o600)] == [0o750, 0o640, 0o600]
