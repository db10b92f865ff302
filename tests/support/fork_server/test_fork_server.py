"""Programs that the fork server runs behave like processes of the real interpreter."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.fork_server.interpreter import SAMPLE


def start(ending: str, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", SAMPLE, ending],
        cwd=ROOT,
        env=os.environ | variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_program_inherits_streams_folder_variables_and_cores() -> None:
    process = start("echo", SAMPLE="of this test")
    output, error = process.communicate("typed")
    started = json.loads(output)
    assert (process.returncode, error) == (0, "typed\n")
    assert (started["folder"], started["variable"]) == (str(ROOT), "of this test")
    assert started["cores"] == sorted(os.sched_getaffinity(0))
    assert started["mlflow"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_to_the_launcher_ends_its_program(number: signal.Signals) -> None:
    process = start("wait", SAMPLE="found by it")
    assert process.stdout
    pid = json.loads(process.stdout.readline())["pid"]
    # Services find a job's processes by their environment.
    assert b"SAMPLE=found by it" in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    process.send_signal(number)
    process.communicate()
    assert process.returncode == -number
    deadline = time.monotonic() + 60
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_real_interpreter_runs_programs_with_different_variables() -> None:
    """Packages may read these variables when they are imported."""
    process = start("exit", HF_ENDPOINT="http://127.0.0.1:9")
    output, _ = process.communicate()
    assert (process.returncode, json.loads(output)["mlflow"]) == (7, False)


def test_the_server_survives_launchers_killed_at_any_moment() -> None:
    for moment in range(20):
        process = start("wait")
        time.sleep(moment / 200)
        process.send_signal(signal.SIGSTOP if moment % 2 else signal.SIGTERM)
        process.kill()
        process.communicate()
    for ending, code in (("exit", 7), ("signal", -signal.SIGUSR1)):
        process = start(ending)
        process.communicate()
        assert process.returncode == code
