"""Digests of shared folders: every kind of damage is noticed before use, and what can be made again is."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from training.contract.errors import InputError
from training.state.folders import damage, discard, is_damaged, is_usable, new_folder, record, record_of


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
    "a renamed file": lambda folder: (folder / "sub" / "data").rename(folder / "sub" / "date"),
    "a changed link": lambda folder: ((folder / "link").unlink(), (folder / "link").symlink_to("link")),
    "a pipe": lambda folder: ((folder / "sub" / "data").unlink(), os.mkfifo(folder / "sub" / "data")),
    "an empty record": lambda folder: record_of(folder).write_text(""),
    "a folder as record": lambda folder: (record_of(folder).unlink(), record_of(folder).mkdir()),
    "a file as folder": lambda folder: (shutil.rmtree(folder), folder.write_bytes(b"")),
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
    if record_of(folder).is_dir():
        record_of(folder).rmdir()
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


def test_a_loop_of_links_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "key").symlink_to("key")
    assert not is_usable(tmp_path / "key")
    assert is_usable(whole(tmp_path / "key"))


def test_the_first_of_two_makers_wins(tmp_path: Path) -> None:
    with new_folder(tmp_path / "key") as unfinished:
        (unfinished / "late").touch()
        whole(tmp_path / "key")
    assert is_usable(tmp_path / "key")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".key.sha256", "key"]
    assert (tmp_path / "key" / "sub").is_dir()


def test_a_deleted_folder_leaves_no_record(tmp_path: Path) -> None:
    trash = discard(whole(tmp_path / "staged" / "key"), tmp_path)
    assert [path.name for path in (tmp_path / "staged").iterdir()] == [trash.name]


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"file/key cannot be written: "), new_folder(tmp_path / "file" / "key"):
        pass
