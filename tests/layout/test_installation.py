"""The installed command `trainfare` runs from any folder, adds nothing else to the import path, and helps at once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from importlib.metadata import PackageNotFoundError, distribution, entry_points
from pathlib import Path

import pytest

from tests.layout.imports import ORDER, ROOT
from tests.support.shadowing_folder import ShadowingFolder

HEAVY = (
    *("torch", "transformers", "mlflow", "boto3", "datasets", "pandas", "matplotlib", "sagemaker", "optuna", "scipy"),
    *("pydantic", "rich", "yaml"),
)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def test_only_the_entry_point_is_installed() -> None:
    assert PROJECT["tool"]["flit"]["module"] == {"name": "trainfare"}
    assert [path.name for path in (ROOT / "src").iterdir() if path.name != "__pycache__"] == ["trainfare.py"]
    assert PROJECT["project"]["scripts"] == {"trainfare": "trainfare:main"}
    assert PROJECT["project"]["entry-points"] == {"mlflow.tracking_store": {"sqlite": "trainfare:sqlite_store"}}


def test_the_entry_point_runs_from_any_folder(tmp_path: Path) -> None:
    folder = ShadowingFolder(tmp_path)
    files = set(tmp_path.rglob("*"))
    command = [sys.executable, str(ROOT / "src" / "trainfare.py")]
    done = subprocess.run([*command, "--version"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == f"trainfare {PROJECT['project']['version']}\n"
    done = subprocess.run([*command, "trian"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, "Did you mean 'train'?" in done.stderr) == (2, True)
    assert (folder.imported(), set(tmp_path.rglob("*"))) == ("", files)


@pytest.fixture
def installed() -> Path:
    """The command of this environment, which `make setup` installs."""
    try:
        version = distribution("trainfare").version
    except PackageNotFoundError:
        assert not os.environ.get("TRAINFARE_CI"), "`make setup` has not installed the command trainfare"
        pytest.skip("this environment was not made by `make setup`")
    assert version == PROJECT["project"]["version"]
    return Path(sysconfig.get_path("scripts")) / "trainfare"


def test_the_installed_command_runs_from_any_folder(installed: Path, tmp_path: Path) -> None:
    done = subprocess.run([installed, "compare", "--help"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: trainfare compare ")


def test_mlflow_of_this_environment_opens_databases_through_us(installed: Path) -> None:
    if json.loads(str(distribution("trainfare").read_text("direct_url.json")))["url"] != ROOT.as_uri():
        pytest.skip("this environment belongs to another checkout")
    [entry] = [each for each in entry_points(group="mlflow.tracking_store") if each.name == "sqlite"]
    assert entry.value == "trainfare:sqlite_store", "run `make setup`"


def test_other_processes_of_the_environment_cannot_import_our_packages(tmp_path: Path) -> None:
    code = f"import importlib.util; print(*filter(importlib.util.find_spec, {[*ORDER, 'benchmarks']}))"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "")


def test_machines_with_nvidia_smi_do_not_get_the_build_of_pytorch_for_cpus(tmp_path: Path) -> None:
    show = ["make", "--silent", "--eval", "show:; @$(call TORCH_FOR_CPU,echo pip)", "show", "PYTHON=python3"]
    for name in ("make", "sh", "nproc", "true"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))

    def installed() -> str:
        environment = {"PATH": str(tmp_path)}
        return subprocess.run(show, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout

    assert "--require-hashes -r requirements-cpu.lock" in installed()
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    assert installed() == ""


def test_help_of_every_verb_imports_no_heavy_library() -> None:
    code = f"""
import sys
from experiments.__main__ import VERBS, main
for words in [[], *([verb] for verb in VERBS), ["jobs", "list"], ["jobs", "prune"]]:
    assert main([*words, "--help"]) == 0
assert main(["--version"]) == 0
print("loaded:", *sorted(set({HEAVY!r}) & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded:"
