"""The lock on what several jobs read: held by whoever uses it until he dies, and by whoever deletes it."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

from tests.conftest import ROOT
from training.state.shared_folders import alone, use

USER = """
import sys
from pathlib import Path
from training.state.shared_folders import use
print(use(Path(sys.argv[1]), [Path(each) for each in sys.argv[2:]]), flush=True)
sys.stdin.read()
"""


def user(home: Path, *places: Path) -> subprocess.Popen[str]:
    """Start a process that uses some places until its input ends."""
    command = [sys.executable, "-c", USER, str(home), *map(str, places)]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_what_is_used_is_not_had_alone_until_its_user_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "staged" / "key"
    (folder / "train").mkdir(parents=True)
    process = user(tmp_path, folder / "train", tmp_path / "elsewhere", Path("/somewhere/else"))
    assert process.stdout
    assert process.stdout.readline() == "True\n"
    with alone(folder) as is_alone:
        assert not is_alone
    process.kill()
    process.communicate()
    with alone(folder) as is_alone:
        assert is_alone
    assert [path.name for path in folder.parent.iterdir()] == ["key"], "the lock goes with its last holder"


def test_who_deletes_has_it_alone(tmp_path: Path) -> None:
    folder = tmp_path / "sources" / "key"
    folder.mkdir(parents=True)
    with alone(folder) as first, alone(folder) as second:
        assert (first, second) == (True, False)


def test_who_waits_hears_that_it_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "staged" / "key"
    folder.mkdir(parents=True)
    heard: list[bool] = []
    waiting = threading.Thread(target=lambda: heard.append(use(tmp_path, [folder / "train"])))
    with alone(folder) as is_alone:
        assert is_alone
        waiting.start()
        folder.rename(tmp_path / "staged" / ".trash-1")
        assert waiting.is_alive()
    waiting.join()
    assert heard == [False]
    # And once it is made again, it is used, as often as it is asked for.
    folder.mkdir()
    assert use(tmp_path, [folder])
    assert use(tmp_path, [folder, folder / "train"])
    with alone(folder) as is_alone:
        assert not is_alone


def test_what_is_left_after_all_stays_usable(tmp_path: Path) -> None:
    folder = tmp_path / "staged" / "key"
    folder.mkdir(parents=True)
    heard: list[bool] = []
    waiting = threading.Thread(target=lambda: heard.append(use(tmp_path, [folder])))
    with alone(folder):
        waiting.start()
    waiting.join()
    assert heard == [True]
    with alone(folder) as is_alone:
        assert not is_alone


def test_nothing_there_is_nothing_used(tmp_path: Path) -> None:
    assert not use(tmp_path, [tmp_path / "staged" / "key"])
    with alone(tmp_path / "staged" / "key") as is_alone:
        assert not is_alone
