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
from tests.support.tracking.half_made import half_made
from tracking.server.database import prepare
from tracking.server.store import open_store
from training.contract.errors import InputError, TrackingError
from training.state.database_files import tables

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


def test_a_half_made_store_without_runs_is_set_aside(tmp_path: Path) -> None:
    half_made(tmp_path / "mlflow.db")
    said: list[str] = []
    store = open_store(uri(tmp_path), echo=said.append)
    assert store.client.get_experiment("0").name == "Default"
    [aside] = [name for name in files(tmp_path) if "incomplete" in name]
    assert said == [
        f"{tmp_path / 'mlflow.db'} was left half-made by a command that was killed. It has no runs and is now {aside}."
    ]


def test_a_store_of_an_earlier_mlflow_is_migrated_and_kept(tmp_path: Path) -> None:
    """The database of MLflow 1.0 with one run: its tables are those that MLflow creates before any migration."""
    from mlflow.store.db.utils import InitialBase
    from sqlalchemy import create_engine

    path = tmp_path / "mlflow.db"
    engine = create_engine(f"sqlite:///{path}")
    InitialBase.metadata.create_all(engine)
    engine.dispose()
    path.chmod(0o660)  # shared with a group
    with sqlite3.connect(path) as database:
        database.execute(
            "INSERT INTO experiments (experiment_id, name, artifact_location, lifecycle_stage) "
            "VALUES (0, 'Default', './mlruns/0', 'active'), (1, 'demo', './mlruns/1', 'active')"
        )
        columns = "run_uuid, name, source_type, source_name, entry_point_name, user_id, status, start_time, end_time"
        database.execute(
            f"INSERT INTO runs ({columns}, source_version, lifecycle_stage, artifact_uri, experiment_id) "
            "VALUES ('a', '', 'LOCAL', '', '', 'u', 'FINISHED', 1000, 2000, '', 'active', './mlruns/1/a/artifacts', 1)"
        )
    database.close()
    said: list[str] = []
    store = open_store(uri(tmp_path), echo=said.append)
    assert [run.info.run_id for run in store.client.search_runs(["1"])] == ["a"]
    [kept] = [name for name in files(tmp_path) if "before" in name]
    assert said == [f"{path} is migrated to this version of MLflow. The earlier database is kept as {kept}."]
    assert "traces" not in tables(tmp_path / kept)
    assert path.stat().st_mode & 0o777 == 0o660
    assert open_store(uri(tmp_path), echo=said.append).client.get_run("a").info.status == "FINISHED"
    assert len(said) == 1


def test_a_half_made_store_with_runs_is_explained_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "mlflow.db"
    half_made(path)
    with sqlite3.connect(path) as database:
        database.execute("INSERT INTO runs (run_uuid) VALUES ('a')")
    database.close()
    before = path.read_bytes()
    with pytest.raises(TrackingError, match=r"mlflow\.db, which has runs, is of another MLflow or half-made"):
        open_store(uri(tmp_path))
    assert path.read_bytes() == before
    assert files(tmp_path) == [".mlflow.db.lock", "mlflow.db"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"this is a text file, " * 400, r"mlflow\.db cannot be read: file is not a database\. If it is damaged"),
        ("other", r"mlflow\.db belongs to another program: it has the tables pictures\."),
        ("newer", r"mlflow\.db was written by a newer MLflow than the installed one \(revision 0123abcd\)\."),
    ],
)
def test_files_that_are_no_store_are_explained_and_unchanged(
    tmp_path: Path, content: bytes | str, message: str
) -> None:
    path = tmp_path / "mlflow.db"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        with sqlite3.connect(path) as database:
            database.execute("CREATE TABLE pictures (name TEXT)")
            if content == "newer":
                database.execute("CREATE TABLE alembic_version (version_num VARCHAR(32))")
                database.execute("INSERT INTO alembic_version VALUES ('0123abcd')")
        database.close()
    before = path.read_bytes()
    with pytest.raises(TrackingError, match=message):
        open_store(uri(tmp_path))
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["a?b", "e%20f"])
def test_a_path_that_mlflow_misreads_is_refused(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / name)
    with pytest.raises(InputError, match=r"/mlflow\.db has \? or an escape such as %20 in its path"):
        open_store()
    assert files(tmp_path) == [name]
    assert files(tmp_path / name) == []


@pytest.mark.parametrize("name", ["100%", "c#d", "e f"])
def test_other_names_of_folders_are_taken_literally(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    prepare(uri(tmp_path / name), print)
    assert files(tmp_path) == [name]
    assert files(tmp_path / name) == [".mlflow.db.lock", "mlflow.db"]
    assert (tmp_path / name / "mlflow.db").stat().st_mode & 0o777 == 0o600


def test_a_folder_that_cannot_be_written_to_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TrackingError, match=r"The tracking database .*/file/mlflow\.db cannot be created: "):
        open_store(f"sqlite:///{tmp_path / 'file' / 'mlflow.db'}")


def test_a_complete_store_is_left_alone(tmp_path: Path, tracking_uri: str) -> None:
    said: list[str] = []
    prepare(tracking_uri, said.append)
    prepare("http://127.0.0.1:1", said.append)
    assert said == []
