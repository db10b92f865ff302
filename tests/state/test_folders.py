"""Shared folders: damage is noticed before use, what can be made again is, and no partial folder is ever seen."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from state.folders import (
    TRASH_PREFIX,
    damage,
    delete,
    discard,
    is_damaged,
    is_usable,
    new_folder,
    record,
    record_of,
)
from tests.conftest import ROOT
from training.contract.errors import InputError


def whole(folder: Path) -> Path:
    with new_folder(folder) as unfinished:
        (unfinished / "sub").mkdir()
        (unfinished / "sub" / "data").write_bytes(b"0123456789")
        (unfinished / "link").symlink_to("sub/data")
    return folder


def same_time(folder: Path, content: bytes) -> None:
    """Change a file's content, but neither its size nor its time."""
    path = folder / "sub" / "data"
    status = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "an emptied file": lambda folder: (folder / "sub" / "data").write_bytes(b""),
    "a changed byte": lambda folder: (folder / "sub" / "data").write_bytes(b"0123456780"),
    "a changed byte, with the old time": lambda folder: same_time(folder, b"0123456780"),
    "a missing file": lambda folder: (folder / "sub" / "data").unlink(),
    "another file": lambda folder: (folder / "more").write_bytes(b""),
    "a changed link": lambda folder: ((folder / "link").unlink(), (folder / "link").symlink_to("link")),
    "a pipe": lambda folder: ((folder / "sub" / "data").unlink(), os.mkfifo(folder / "sub" / "data")),
    "an empty record": lambda folder: record_of(folder).write_text(""),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_folder_is_removed_and_reported(tmp_path: Path, name: str) -> None:
    folder = whole(tmp_path / "key")
    DAMAGE[name](folder)
    assert damage(folder / "sub") == f"{folder} is damaged: it differs from its digest"
    said: list[str] = []
    assert not is_usable(folder, said.append)
    assert said == [f"{folder} is damaged: it differs from its digest. It is made again."]
    assert not os.path.lexists(folder)
    assert is_usable(whole(folder), said.append)
    assert (len(said), damage(folder / "sub" / "data")) == (1, None)


def test_damage_after_a_first_comparison_is_noticed(tmp_path: Path) -> None:
    folder = whole(tmp_path / "key")
    assert not is_damaged(folder)
    assert not is_damaged(folder)
    (folder / "sub" / "data").write_bytes(b"012345678")
    assert is_damaged(folder)


def test_a_copied_home_is_whole_and_a_folder_without_record_is_used(tmp_path: Path) -> None:
    folder = whole(tmp_path / "home" / "key")
    shutil.copytree(tmp_path / "home", tmp_path / "copy", symlinks=True)
    assert is_usable(tmp_path / "copy" / "key")
    record_of(folder).unlink()
    (folder / "sub" / "data").write_bytes(b"of an earlier version")
    assert is_usable(folder)
    assert damage(folder) is None


def test_a_file_has_a_digest_too(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("{}\n")
    record(path)
    assert is_usable(path)
    path.write_text("")
    assert damage(path) == f"{path} is damaged: it differs from its digest"
    assert not is_usable(path)
    assert not path.exists()


def test_the_first_of_two_makers_wins(tmp_path: Path) -> None:
    with new_folder(tmp_path / "key") as unfinished:
        (unfinished / "late").touch()
        whole(tmp_path / "key")
    assert is_usable(tmp_path / "key")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".key.sha256", "key"]
    assert (tmp_path / "key" / "sub").is_dir()


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"file/key cannot be written: "), new_folder(tmp_path / "file" / "key"):
        pass


def new_folder_of(home: Path, files: int = 3) -> Path:
    created = home / "checkpoints" / "j-1"
    (created / "inner").mkdir(parents=True)
    for number in range(files):
        (created / "inner" / str(number)).touch()
    return created


def test_a_folder_is_renamed_before_its_files_are_deleted(tmp_path: Path) -> None:
    created = new_folder_of(tmp_path)
    trash = discard(created, tmp_path)
    assert not created.exists()
    assert trash.name.startswith(TRASH_PREFIX)
    assert len(list((trash / "inner").iterdir())) == 3
    delete(trash)
    assert list((tmp_path / "checkpoints").iterdir()) == []
    delete(trash)  # another prune was faster


def test_targets_of_links_are_kept(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    home = tmp_path / "home"
    created = new_folder_of(home)
    (created / "link").symlink_to(outside)
    (created / "inner" / "file").symlink_to(outside / "kept")
    delete(discard(created, home))
    assert (outside / "kept").exists()
    assert list((home / "checkpoints").iterdir()) == []


@pytest.mark.parametrize("wrong", ["link", "linked parent", "outside", "deeper", "home"])
def test_only_a_folder_of_the_state_can_be_discarded(tmp_path: Path, wrong: str) -> None:
    home, outside = tmp_path / "home", tmp_path / "outside"
    created, other = new_folder_of(home), new_folder_of(outside)
    (home / "checkpoints" / "link").symlink_to(other)
    (home / "outputs").symlink_to(outside / "checkpoints")
    paths = {
        "link": home / "checkpoints" / "link",
        "linked parent": home / "outputs" / "j-1",
        "outside": other,
        "deeper": created / "inner",
        "home": home,
    }
    with pytest.raises(ValueError, match="is not two levels below"):
        discard(paths[wrong], home)
    assert (other / "inner" / "0").exists()
    assert (created / "inner" / "0").exists()


KILLED = """
import sys
from pathlib import Path
from state.folders import delete, discard
delete(discard(Path(sys.argv[1]), Path(sys.argv[2])))
"""


def test_a_kill_leaves_no_partial_folder_under_its_name(tmp_path: Path) -> None:
    created = new_folder_of(tmp_path, files=5_000)
    parent = created.parent
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(created), str(tmp_path)], cwd=ROOT)
    while created.exists() and process.poll() is None:
        time.sleep(0.001)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not created.exists()
    left = list(parent.iterdir())
    assert all(path.name.startswith(TRASH_PREFIX) for path in left)
    for path in left:
        delete(path)
    assert list(parent.iterdir()) == []
