"""MLflow's own commands with the entry points of `src/trainfare.py`: the database is complete and private."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.conftest import ROOT

LIST = "from mlflow import MlflowClient; print(*(each.name for each in MlflowClient().search_experiments()))"


def installed_environment(folder: Path) -> dict[str, str]:
    """Return the environment variables, after writing to `folder` the metadata that `make setup` installs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    metadata = folder / f"{project['name']}-{project['version']}.dist-info"
    metadata.mkdir(parents=True, exist_ok=True)
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    groups = {"console_scripts": project["scripts"], **project["entry-points"]}
    lines = [line for name, each in groups.items() for line in (f"[{name}]", *(f"{k} = {v}" for k, v in each.items()))]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
    return {**kept, "MLFLOW_DISABLE_TELEMETRY": "true", "PYTHONPATH": f"{folder}{os.pathsep}{ROOT / 'src'}"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "a folder"
    path.mkdir()
    return path


def list_experiments(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Open the default store of a folder in a process that imports nothing of ours, and print the experiments."""
    environment = {**installed_environment(folder.parent / "installed"), **variables}
    command = [sys.executable, "-c", LIST]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.usefixtures("plain_interpreter")
def test_mlflow_creates_a_private_database_beside_its_place(folder: Path) -> None:
    before = os.umask(0o022)
    try:
        done = list_experiments(folder)
    finally:
        os.umask(before)
    assert (done.returncode, done.stdout) == (0, "Default\n"), done.stderr
    # The lock shows that the database was made beside its place. MLflow alone would make `a%20folder`, too.
    assert sorted(path.name for path in folder.iterdir()) == [".mlflow.db.lock", "mlflow.db"]
    assert sorted(path.name for path in folder.parent.iterdir()) == ["a folder", "installed"]
    assert (folder / "mlflow.db").stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("plain_interpreter")
def test_mlflow_run_explains_a_damaged_database(folder: Path) -> None:
    (folder / "mlflow.db").write_text("not a database, " * 400)
    (folder / "MLproject").write_text('name: nothing\nentry_points: {main: {command: "true"}}\n')
    command = [sys.executable, "-m", "mlflow", "run", ".", "--env-manager", "local"]
    environment = installed_environment(folder.parent / "installed")
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "mlflow.db cannot be read: file is not a database. If it is damaged, move it away" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("plain_interpreter")
def test_a_path_that_mlflow_misreads_is_refused(tmp_path: Path) -> None:
    name = "a?b%20c"
    (tmp_path / name).mkdir()
    done = list_experiments(tmp_path / name)
    assert done.returncode == 1
    assert f"{name}/mlflow.db has ? or an escape such as %20 in its path, which MLflow misreads" in done.stderr
    assert [path.name for path in (tmp_path / name).iterdir()] == []
