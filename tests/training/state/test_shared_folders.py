"""Locks on folders that several jobs read: shared by their users, exclusive for deletion."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

from tests.conftest import ROOT
from training.state.locks import lock_for_deletion, lock_for_use

USER = """
import sys
from pathlib import Path
from training.state.locks import lock_for_use
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


def test_only_one_process_can_delete_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "sources" / "key"
    folder.mkdir(parents=True)
    with lock_for_deletion(folder) as first, lock_for_deletion(folder) as second:
        assert (first, second) == (True, False)


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


def test_a_folder_that_was_not_deleted_can_be_used(tmp_path: Path) -> None:
    folder = tmp_path / "staged" / "key"
    folder.mkdir(parents=True)
    results: list[bool] = []
    waiting = threading.Thread(target=lambda: results.append(lock_for_use(tmp_path, [folder])))
    with lock_for_deletion(folder):
        waiting.start()
    waiting.join()
    assert results == [True]
    with lock_for_deletion(folder) as is_unused:
        assert not is_unused


def test_a_missing_folder_cannot_be_used(tmp_path: Path) -> None:
    assert not lock_for_use(tmp_path, [tmp_path / "staged" / "key"])
    with lock_for_deletion(tmp_path / "staged" / "key") as is_unused:
        assert not is_unused
