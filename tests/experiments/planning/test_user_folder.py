"""Test paths of commands that `mlflow run` starts in another folder, with real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.planning.load import find_in_user_folder, load, user_folder
from tests.conftest import ROOT
from training.contract.errors import InputError

PRINT_FOLDER = "from experiments.planning.load import user_folder; print(user_folder())"


@pytest.mark.usefixtures("plain_interpreter")
@pytest.mark.parametrize("shell", ['exec "$0" -c "$1"', '"$0" -c "$1"; true'])
def test_the_users_folder_is_that_of_the_process_which_opened_the_run(tmp_path: Path, shell: str) -> None:
    """As `mlflow run` does: a process in the user's folder starts bash with the run's id in the project's folder."""
    clean = {name: value for name, value in os.environ.items() if name != "MLFLOW_RUN_ID"}
    program = (
        "import os, subprocess, sys; project, shell, code = sys.argv[1:]; "
        "environment = {**os.environ, 'MLFLOW_RUN_ID': 'a', 'PYTHONPATH': project}; "
        "subprocess.run(['bash', '-c', shell, sys.executable, code], cwd=project, env=environment, check=True)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(ROOT), shell, PRINT_FOLDER],
        cwd=tmp_path,
        env=clean,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(tmp_path)


def test_without_mlflow_run_it_is_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert user_folder() == tmp_path


def test_a_missing_file_is_reported_with_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as error:
        load("own.yaml", {})
    assert str(error.value) == f"experiment file 'own.yaml' does not exist in {tmp_path}."
    (tmp_path / "own.yaml").write_text("epochs: 1\n")
    assert find_in_user_folder(Path("own.yaml"), "experiment") == Path("own.yaml")


def test_a_missing_file_under_mlflow_run_is_reported_with_both_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    # This process has no ancestor with a run's id, so the closest one is its parent.
    user = Path(f"/proc/{os.getppid()}/cwd").readlink()
    monkeypatch.chdir(project)
    monkeypatch.setenv("MLFLOW_RUN_ID", "a")
    with pytest.raises(InputError) as error:
        load("missing.yaml", {})
    assert f"'missing.yaml' exists neither in {user} nor in {project}" in str(error.value)
    assert "use an absolute path" in str(error.value)
