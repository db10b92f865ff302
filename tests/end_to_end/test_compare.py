"""`compare` with real trainings under both compilers, killed and resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.end_to_end.conftest import CommandLine
from tests.support.job.tiny import TINY
from tests.support.ports import free_port, is_listening
from tests.support.services.following import until


@pytest.mark.gate
@pytest.mark.slow
def test_a_killed_comparison_of_two_compilers_resumes(command_line: CommandLine, reviews: dict[str, object]) -> None:
    """The launcher is killed while the second arm compiles. The same command completes the comparison."""
    fields = {**reviews, **TINY, "compare.repeats": 2, "save_model": "false"}
    launcher = command_line.start("compare", fields)
    assert launcher.stdout
    for line in launcher.stdout:
        if "inductor, repeat 1: started" in line:
            break
    launcher.send_signal(signal.SIGKILL)
    launcher.communicate()
    done = command_line("compare", fields)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Resuming" in done.stdout
    [group] = command_line.runs("group")
    assert group.info.status == "FINISHED"
    runs = command_line.runs()
    assert [run.data.tags["platform.arm"] for run in runs] == ["none", "inductor", "inductor", "none"]
    assert {run.info.status for run in runs} == {"FINISHED"}
    assert [run.data.tags["platform.cache_state"] for run in runs] == ["off", "cold", "warm", "off"]
    compiled = [run.data.metrics for run in runs if run.data.tags["platform.arm"] == "inductor"]
    assert all(metrics["compile/recompiles"] == 0 for metrics in compiled)
    assert all(metrics["time/compile_seconds"] > 0 for metrics in compiled)
    assert all(run.data.metrics["samples"] == 64 for run in runs)
    summary = json.loads((_report(command_line, group.data.tags["platform.group"]) / "summary.json").read_text())
    assert {arm["label"] for arm in summary["arms"]} == {"none", "inductor"}


def _report(command_line: CommandLine, group_id: str) -> Path:
    folder = command_line.folder / "home" / "reports" / group_id
    assert (folder / "report.html").stat().st_size > 10_000
    assert (folder / "plots" / "throughput.png").stat().st_size > 1_000
    return folder


def _link_to_installed_packages(folder: Path) -> Path:
    """Return a wheel that makes this environment's packages importable in the environment where it is installed."""
    wheel = folder / "linked-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("linked.pth", f"{sysconfig.get_path('purelib')}\n")
        archive.writestr("linked-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: linked\nVersion: 1\n")
        archive.writestr("linked-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("linked-1.dist-info/RECORD", "")
    return wheel


@pytest.fixture
def git_url(tmp_path: Path) -> Iterator[str]:
    """The URL of a git server that serves this repository, with one small package in requirements.txt.

    `make setup` installs the same packages from the lock file, without resolving them.
    """
    checkout, served = tmp_path / "checkout", tmp_path / "trainfare.git"
    git = ["git", "-c", "user.name=test", "-c", "user.email=test@localhost"]
    subprocess.run([*git, "clone", "--quiet", str(ROOT), str(checkout)], check=True)
    (checkout / "requirements.txt").write_text(f"{_link_to_installed_packages(tmp_path)}\n")
    # MLflow asks for the branch of HEAD, and whoever tests one commit has none.
    for words in (["checkout", "--quiet", "-B", "served"], ["commit", "--quiet", "-am", "Link to installed packages"]):
        subprocess.run([*git, "-C", str(checkout), *words], check=True)
    subprocess.run([*git, "clone", "--quiet", "--bare", "--branch", "served", str(checkout), str(served)], check=True)
    port = free_port()
    place = ["--export-all", f"--base-path={tmp_path}", "--listen=127.0.0.1", f"--port={port}"]
    server = subprocess.Popen(["git", "daemon", "--reuseaddr", *place], start_new_session=True)
    until(lambda: is_listening(port))
    yield f"git://127.0.0.1:{port}/trainfare.git"
    os.killpg(server.pid, signal.SIGTERM)
    server.wait()


@pytest.mark.slow
def test_mlflow_run_installs_a_git_checkout_and_trains(command_line: CommandLine, git_url: str, tmp_path: Path) -> None:
    """`--env-manager virtualenv` installs requirements.txt and trains; MLflow keeps its environments in HOME."""
    parameters = {"experiment": "demo", "data.train_rows": 64, "data.validation_rows": 32, "batch_size": 8}
    words = [word for name, value in parameters.items() for word in ("-P", f"{name}={value}")]
    done = subprocess.run(
        ["mlflow", "run", git_url, "-e", "train", "--env-manager", "virtualenv", "--experiment-name", "git", *words],
        cwd=tmp_path,
        env=command_line.environment | {"MLFLOW_ENV_ROOT": str(tmp_path / "environments")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    [run] = command_line.runs()
    assert run.info.status == "FINISHED"
    assert run.data.metrics["samples"] == 64
    assert list((tmp_path / "environments").glob("*/lib/python*/site-packages/linked.pth"))
