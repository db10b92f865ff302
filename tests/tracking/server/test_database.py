"""First use of a tracking database: killed launchers, several at once, half-made and foreign files."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from mlflow import MlflowClient

from tests.conftest import ROOT
from tracking.server.database import prepare
from tracking.server.store import open_store
from training.contract.errors import InputError, TrackingError

OPEN = (
    "from tracking.server.store import open_store; "
    "open_store({uri!r}).client.create_experiment({name!r}); print('opened')"
)


def start(folder: Path, name: str) -> subprocess.Popen[str]:
    """Start a process that opens the store and creates an experiment."""
    code = OPEN.format(uri=uri(folder), name=name)
    return subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def uri(folder: Path) -> str:
    return f"sqlite:///{folder / 'mlflow.db'}"


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.gate
@pytest.mark.slow
def test_a_store_survives_kills_at_any_moment_of_its_first_use(tmp_path: Path) -> None:
    draw = random.Random(1)
    for number in range(10):
        folder = tmp_path / str(number)
        folder.mkdir()
        killed = start(folder, "a")
        time.sleep(draw.uniform(0.3, 6.0))
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
        following = start(folder, "b")
        output, _ = following.communicate(timeout=480)
        assert (following.returncode, output.splitlines()[-1]) == (0, "opened"), output
        assert "Traceback" not in output
        assert not [name for name in files(folder) if ".new-" in name or "incomplete" in name]


@pytest.mark.slow
def test_two_first_commands_at_once_share_one_store(tmp_path: Path) -> None:
    for number in range(4):
        folder = tmp_path / str(number)
        folder.mkdir()
        both = [start(folder, name) for name in ("a", "b")]
        outputs = [process.communicate(timeout=480)[0] for process in both]
        assert [process.returncode for process in both] == [0, 0], outputs
        names = {experiment.name for experiment in MlflowClient(uri(folder)).search_experiments()}
        assert names == {"Default", "a", "b"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "this is a text file, " * 400,
            r"mlflow\.db cannot be read: file is not a database\. If it is damaged, move it",
        ),
        ("other program", r"mlflow\.db was made by .* or another program, or is incomplete \(revision none instead"),
        (
            "other version",
            r"incomplete \(revision 0123abcd .* Back it up and run `mlflow db upgrade sqlite:////.*/mlflow\.db`",
        ),
    ],
)
def test_files_that_are_no_store_are_explained_and_unchanged(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "mlflow.db"
    if content.startswith("this"):
        path.write_text(content)
    else:
        with sqlite3.connect(path) as database:
            database.execute("CREATE TABLE pictures (name TEXT)")
            if content == "other version":
                database.execute("CREATE TABLE alembic_version (version_num VARCHAR(32))")
                database.execute("INSERT INTO alembic_version VALUES ('0123abcd')")
        database.close()
    before = path.read_bytes()
    with pytest.raises(TrackingError, match=message):
        open_store(uri(tmp_path))
    assert path.read_bytes() == before
    assert files(tmp_path) == ["mlflow.db"]


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    """SQLite leaves it if it is killed before its first table."""
    (tmp_path / "mlflow.db").touch()
    assert open_store(uri(tmp_path)).client.get_experiment("0").name == "Default"


@pytest.mark.parametrize("name", ["a?b", "e%20f"])
def test_a_path_that_mlflow_misreads_is_refused(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / name)
    with pytest.raises(InputError, match=r"/mlflow\.db has \? or an escape such as %20 in its path"):
        open_store()
    assert files(tmp_path) == [name]
    assert files(tmp_path / name) == []


def test_other_names_of_folders_are_taken_literally_and_a_complete_store_is_left_alone(tmp_path: Path) -> None:
    name = "100% c#d"
    (tmp_path / name).mkdir()
    prepare(uri(tmp_path / name))
    assert files(tmp_path) == [name]
    assert files(tmp_path / name) == [".mlflow.db.lock", "mlflow.db"]
    assert (tmp_path / name / "mlflow.db").stat().st_mode & 0o777 == 0o600
    before = (tmp_path / name / "mlflow.db").read_bytes()
    prepare(uri(tmp_path / name))
    assert (tmp_path / name / "mlflow.db").read_bytes() == before


def test_a_folder_that_cannot_be_written_to_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TrackingError, match=r"The tracking database .*/file/mlflow\.db cannot be created: "):
        open_store(f"sqlite:///{tmp_path / 'file' / 'mlflow.db'}")
