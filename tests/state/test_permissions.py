"""Files are private by default, and folders whose files other users could replace are refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from state.permissions import private_mode, reason_against
from tests.conftest import ROOT

PROGRAM = "import sys; from pathlib import Path; from state.permissions import set_umask; set_umask(); "
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


NOBODY = 65534
AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="only root can act as two users")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "a" / "b"
    path.mkdir(parents=True)
    return path


def test_private_and_missing_folders_are_safe(folder: Path) -> None:
    assert reason_against(folder) is None
    assert reason_against(folder / "missing" / "more") is None


@pytest.mark.parametrize("mode", [0o777, 0o757])
def test_a_parent_that_others_can_write_to_is_not_safe(folder: Path, mode: int) -> None:
    folder.parent.chmod(mode)
    assert str(reason_against(folder)).startswith(f"it is in {folder.parent}, and other users may write to that folder")
    folder.parent.chmod(mode | 0o1000)
    assert reason_against(folder) is None


@AS_ROOT
def test_a_group_of_others_is_trusted_only_if_the_user_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.chown(folder, -1, NOBODY)
    folder.chmod(0o770)
    assert str(reason_against(folder)).startswith("other users may write to it")
    monkeypatch.setenv("TRAINFARE_UMASK", "007")
    assert reason_against(folder) is None
    monkeypatch.setenv("TRAINFARE_UMASK", "027")
    assert reason_against(folder) is not None
    monkeypatch.delenv("TRAINFARE_UMASK")
    os.chown(folder, -1, 0)  # root's own group
    assert reason_against(folder) is None


def test_a_link_leads_to_its_target(folder: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(folder.parent)
    assert reason_against(link / "b") is None
    assert reason_against(link) == "it is not a folder"
    folder.parent.chmod(0o777)
    assert str(reason_against(link / "b")).startswith(f"it is in {folder.parent}, and")


@AS_ROOT
def test_folders_and_links_of_others_are_not_safe(folder: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(folder.parent)
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    assert reason_against(link / "b") == f"it is in {link}, and that folder belongs to another user ({NOBODY})"
    os.chown(folder, NOBODY, NOBODY)
    assert reason_against(folder) == f"it belongs to another user ({NOBODY})"
