"""Paths that users write, and files that are read only if they are regular."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from state.regular_files import open_regular, read_regular, user_path
from training.contract.errors import InputError


def link(path: Path) -> None:
    path.with_name("target").write_text("content")
    path.symlink_to("target")


KINDS: dict[str, Callable[[Path], object]] = {
    "it is not a regular file": os.mkfifo,
    "it is a link": link,
    "it is a folder": Path.mkdir,
    "it is a link ": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.mark.parametrize("reason", KINDS)
def test_anything_but_a_regular_file_is_refused(tmp_path: Path, reason: str) -> None:
    KINDS[reason](tmp_path / "file")
    with pytest.raises(OSError, match=reason.strip()):
        open_regular(tmp_path / "file")


def test_links_of_a_user_are_followed_only_to_regular_files(tmp_path: Path) -> None:
    link(tmp_path / "file")
    assert read_regular(tmp_path / "file", 7, follow_links=True) == b"content"
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to-pipe").symlink_to("pipe")
    (tmp_path / "to-device").symlink_to("/dev/zero")
    for name in ("to-pipe", "to-device"):
        with pytest.raises(OSError, match="it is not a regular file"):
            open_regular(tmp_path / name, follow_links=True)


def test_a_tilde_is_a_home_folder() -> None:
    assert user_path("~/model", "model") == Path.home() / "model"
    assert user_path("a/~b", "model") == Path("a/~b")


@pytest.mark.parametrize("user", ["~nosuchuser", "~a\0b"])
def test_an_unknown_home_folder_is_refused(user: str) -> None:
    with pytest.raises(InputError) as caught:
        user_path(f"{user}/model", "model")
    path = f"{user}/model"
    assert str(caught.value) == f"model is {path!r}, but no home folder is known for {user!r}: write the whole path."


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_regular(path, 5) == b"12345"
    with pytest.raises(OSError, match="it has more than 4 bytes"):
        read_regular(path, 4)
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "missing", 5)
