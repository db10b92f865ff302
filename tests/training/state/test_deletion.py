"""Deletion of folders: never a part of one, no targets of links, nothing outside of the state."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT
from training.state.deletion import TRASH, delete, discard


def folder(home: Path, files: int = 3) -> Path:
    made = home / "checkpoints" / "j-1"
    (made / "inner").mkdir(parents=True)
    for number in range(files):
        (made / "inner" / str(number)).touch()
    return made


def test_a_folder_is_renamed_before_its_files_are_deleted(tmp_path: Path) -> None:
    made = folder(tmp_path)
    trash = discard(made, tmp_path)
    assert not made.exists()
    assert trash.name.startswith(TRASH)
    assert len(list((trash / "inner").iterdir())) == 3
    delete(trash)
    assert list((tmp_path / "checkpoints").iterdir()) == []
    delete(trash)  # another prune was faster


def test_targets_of_links_are_kept(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    home = tmp_path / "home"
    made = folder(home)
    (made / "link").symlink_to(outside)
    (made / "inner" / "file").symlink_to(outside / "kept")
    delete(discard(made, home))
    assert (outside / "kept").exists()
    assert list((home / "checkpoints").iterdir()) == []


@pytest.mark.parametrize("wrong", ["link", "place", "outside", "deeper", "home"])
def test_only_a_folder_of_the_state_can_be_discarded(tmp_path: Path, wrong: str) -> None:
    home, outside = tmp_path / "home", tmp_path / "outside"
    made, other = folder(home), folder(outside)
    (home / "checkpoints" / "link").symlink_to(other)
    (home / "outputs").symlink_to(outside / "checkpoints")
    paths = {
        "link": home / "checkpoints" / "link",
        "place": home / "outputs" / "j-1",
        "outside": other,
        "deeper": made / "inner",
        "home": home,
    }
    with pytest.raises(ValueError, match="is not within"):
        discard(paths[wrong], home)
    assert (other / "inner" / "0").exists()
    assert (made / "inner" / "0").exists()


KILLED = """
import sys
from pathlib import Path
from training.state.deletion import delete, discard
delete(discard(Path(sys.argv[1]), Path(sys.argv[2])))
"""


def test_a_kill_leaves_no_partial_folder_under_its_name(tmp_path: Path) -> None:
    made = folder(tmp_path, files=20_000)
    parent = made.parent
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(made), str(tmp_path)], cwd=ROOT)
    while made.exists() and process.poll() is None:
        time.sleep(0.001)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not made.exists()
    left = list(parent.iterdir())
    assert all(path.name.startswith(TRASH) for path in left)
    for path in left:
        delete(path)
    assert list(parent.iterdir()) == []
