"""Deletion of folders: no partial folders, no targets of links, nothing outside the state folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT
from training.state.folders import TRASH_PREFIX, delete, discard


def folder(home: Path, files: int = 3) -> Path:
    created = home / "checkpoints" / "j-1"
    (created / "inner").mkdir(parents=True)
    for number in range(files):
        (created / "inner" / str(number)).touch()
    return created


def test_a_folder_is_renamed_before_its_files_are_deleted(tmp_path: Path) -> None:
    created = folder(tmp_path)
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
    created = folder(home)
    (created / "link").symlink_to(outside)
    (created / "inner" / "file").symlink_to(outside / "kept")
    delete(discard(created, home))
    assert (outside / "kept").exists()
    assert list((home / "checkpoints").iterdir()) == []


@pytest.mark.parametrize("wrong", ["link", "linked parent", "outside", "deeper", "home"])
def test_only_a_folder_of_the_state_can_be_discarded(tmp_path: Path, wrong: str) -> None:
    home, outside = tmp_path / "home", tmp_path / "outside"
    created, other = folder(home), folder(outside)
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
from training.state.folders import delete, discard
delete(discard(Path(sys.argv[1]), Path(sys.argv[2])))
"""


def test_a_kill_leaves_no_partial_folder_under_its_name(tmp_path: Path) -> None:
    created = folder(tmp_path, files=5_000)
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
