"""Files that are read only if they are regular."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from training.state.regular_files import open_regular, read_regular


def link(path: Path) -> None:
    path.with_name("target").write_text("content")
    path.symlink_to("target")


KINDS: dict[str, Callable[[Path], object]] = {
    "it is not a regular file": os.mkfifo,
    "it is a link": link,
    "it is not a regular file ": Path.mkdir,
    "it is a link ": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.mark.parametrize("reason", KINDS)
def test_anything_but_a_regular_file_is_refused(tmp_path: Path, reason: str) -> None:
    KINDS[reason](tmp_path / "file")
    with pytest.raises(OSError, match=reason.strip()):
        open_regular(tmp_path / "file")


def test_a_device_is_refused() -> None:
    with pytest.raises(OSError, match="it is not a regular file"):
        open_regular(Path("/dev/zero"))


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_regular(path, 5) == b"12345"
    with pytest.raises(OSError, match="it has more than 4 bytes"):
        read_regular(path, 4)
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "missing", 5)
