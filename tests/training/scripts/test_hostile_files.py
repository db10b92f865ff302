"""Links, pipes, sockets and devices in the folders of a script are refused before anything is read or copied."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.git_repositories import commit, git
from training.contract.errors import InputError
from training.scripts.channels import ScriptChannel, find_channels
from training.scripts.source import find_script


def pipe(path: Path) -> None:
    os.mkfifo(path)


def unix_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(path))  # a socket's path may have only 107 bytes


def link_to(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


HOSTILE = {
    "a pipe": (pipe, "is a device, a pipe or a socket"),
    "a socket": (unix_socket, "is a device, a pipe or a socket"),
    "an endless device": (link_to("/dev/zero"), "is a link to /dev/zero, which is outside"),
    "the system's files": (link_to("/etc"), "is a link to /etc, which is outside"),
    "the parent": (link_to(".."), "which is outside|is a link to a folder that contains it"),
    "itself": (link_to("hostile"), "is a link that leads to itself|cannot be read"),
    "nothing": (link_to("missing"), "cannot be read: No such file or directory"),
    "its folder": (link_to("."), "is a link to a folder that contains it"),
}


def hostile(tmp_path: Path, name: str) -> tuple[Path, str]:
    """Return a script's folder with a hostile entry two levels down, and the message about it."""
    make, message = HOSTILE[name]
    inner = tmp_path / "source" / "more"
    inner.mkdir(parents=True)
    (tmp_path / "source" / "train.py").write_text("")
    make(inner / "hostile")
    return tmp_path / "source", message


@pytest.mark.parametrize("name", HOSTILE)
def test_a_source_with_a_hostile_entry_is_refused(tmp_path: Path, name: str) -> None:
    source, message = hostile(tmp_path, name)
    with pytest.raises(InputError, match=rf"^script\.source: .*/more/hostile ({message})"):
        find_script(str(source), "train.py", tmp_path / "home")
    assert not (tmp_path / "home").exists()


def test_a_channel_with_a_hostile_entry_is_refused(tmp_path: Path) -> None:
    source, message = hostile(tmp_path, "the system's files")
    with pytest.raises(InputError, match=rf"^script\.channels\.rows: .*/more/hostile ({message})"):
        find_channels({"rows": ScriptChannel(uri=str(source))}, tmp_path / "home")


def test_a_channel_that_is_a_device_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^script\.channels\.rows '/dev/zero' is a device, a pipe or a socket"):
        find_channels({"rows": ScriptChannel(uri="/dev/zero")}, tmp_path / "home")


def test_links_within_the_folder_are_followed(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "more").mkdir(parents=True)
    (source / "train.py").write_text("1")
    (source / "more" / "again.py").symlink_to("../train.py")
    script = find_script(str(source), "train.py", tmp_path / "home")
    assert (script.folder / "more" / "again.py").read_text() == "1"


def test_a_repository_with_a_hostile_link_is_refused(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    (repository / "ex").mkdir(parents=True)
    git(repository, "init", "--quiet", "--initial-branch", "main")
    (repository / "ex" / "zero").symlink_to("/dev/zero")
    commit(repository, "first")
    with pytest.raises(InputError, match=r"/ex/zero is a link to /dev/zero, which is outside"):
        find_script(repository.as_uri(), "train.py", tmp_path / "home", directory="ex")
