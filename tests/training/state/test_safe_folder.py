"""Folders whose files other users could replace."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from training.state.permissions import reason_against

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


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to(tmp_path / "two")
    (tmp_path / "two").symlink_to(tmp_path / "one")
    with pytest.raises(OSError, match="symbolic links"):
        reason_against(tmp_path / "one" / "folder")


@AS_ROOT
def test_folders_and_links_of_others_are_not_safe(folder: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(folder.parent)
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    assert reason_against(link / "b") == f"it is in {link}, and that folder belongs to another user ({NOBODY})"
    os.chown(folder, NOBODY, NOBODY)
    assert reason_against(folder) == f"it belongs to another user ({NOBODY})"
