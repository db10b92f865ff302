"""Locks on files and folders: which other locks they exclude, and when they are released."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from training.state.locks import exclusive_lock, is_exclusively_locked, shared_lock


def test_an_exclusive_lock_excludes_every_other_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    descriptor = exclusive_lock(path)
    assert is_exclusively_locked(path)
    for lock in (exclusive_lock, shared_lock):
        with pytest.raises(BlockingIOError):
            lock(path)
    os.close(descriptor)
    assert not is_exclusively_locked(path)
    os.close(exclusive_lock(path))


def test_several_processes_may_share_a_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    shared = [shared_lock(path), shared_lock(path)]
    assert not is_exclusively_locked(path)
    with pytest.raises(BlockingIOError):
        exclusive_lock(path)
    for descriptor in shared:
        os.close(descriptor)
    os.close(exclusive_lock(path))


def test_a_child_process_that_inherits_the_descriptor_keeps_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    descriptor = exclusive_lock(path)
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[descriptor])
    os.close(descriptor)
    assert is_exclusively_locked(path)
    child.kill()
    child.communicate()
    assert not is_exclusively_locked(path)


def test_a_lock_on_a_deleted_file_does_not_guard_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = exclusive_lock(path)
    path.unlink()
    second = exclusive_lock(path)
    assert path.exists()
    os.close(first)
    assert is_exclusively_locked(path)
    os.close(second)


def test_a_folder_can_be_locked(tmp_path: Path) -> None:
    descriptor = exclusive_lock(tmp_path)
    with pytest.raises(BlockingIOError):
        exclusive_lock(tmp_path)
    os.close(descriptor)


def test_locking_in_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        exclusive_lock(tmp_path / "none" / "lock")
    with pytest.raises(FileNotFoundError):
        is_exclusively_locked(tmp_path / "lock")
