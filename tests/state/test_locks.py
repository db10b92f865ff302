"""Locks on files and folders: which other locks they exclude, and when they are released."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from state.locks import exclusive_lock, is_exclusively_locked, lock_for_deletion, lock_for_use, shared_lock
from tests.conftest import ROOT


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


USER = """
import sys
from pathlib import Path
from state.locks import lock_for_use
print(lock_for_use(Path(sys.argv[1]), [Path(each) for each in sys.argv[2:]]), flush=True)
sys.stdin.read()
"""


def user(home: Path, *paths: Path) -> subprocess.Popen[str]:
    """Start a process that uses some paths until its standard input is closed."""
    command = [sys.executable, "-c", USER, str(home), *map(str, paths)]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_used_folder_cannot_be_deleted_until_its_user_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "staged" / "key"
    (folder / "train").mkdir(parents=True)
    process = user(tmp_path, folder / "train", tmp_path / "elsewhere", Path("/somewhere/else"))
    assert process.stdout
    assert process.stdout.readline() == "True\n"
    with lock_for_deletion(folder) as is_unused:
        assert not is_unused
    process.kill()
    process.communicate()
    with lock_for_deletion(folder) as is_unused:
        assert is_unused
    assert [path.name for path in folder.parent.iterdir()] == ["key"], "the lock file is deleted with its last holder"


def test_a_waiting_user_learns_that_the_folder_was_deleted(tmp_path: Path) -> None:
    folder = tmp_path / "staged" / "key"
    folder.mkdir(parents=True)
    results: list[bool] = []
    waiting = threading.Thread(target=lambda: results.append(lock_for_use(tmp_path, [folder / "train"])))
    with lock_for_deletion(folder) as is_unused:
        assert is_unused
        waiting.start()
        folder.rename(tmp_path / "staged" / ".trash-1")
        assert waiting.is_alive()
    waiting.join()
    assert results == [False]
    # When the folder exists again, it can be used, any number of times.
    folder.mkdir()
    assert lock_for_use(tmp_path, [folder])
    assert lock_for_use(tmp_path, [folder, folder / "train"])
    with lock_for_deletion(folder) as is_unused:
        assert not is_unused


def test_a_missing_folder_cannot_be_used(tmp_path: Path) -> None:
    assert not lock_for_use(tmp_path, [tmp_path / "staged" / "key"])
    with lock_for_deletion(tmp_path / "staged" / "key") as is_unused:
        assert not is_unused
