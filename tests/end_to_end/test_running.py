"""Output for a user while jobs run and after they were stopped, on a terminal and in a log."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from tests.end_to_end.conftest import CommandLine

WAITER = """\
import argparse, os, pathlib, time
parser = argparse.ArgumentParser()
parser.add_argument("--seconds", type=float)
parser.add_argument("--megabytes", type=int, default=0)
parser.add_argument("--seed")
args = parser.parse_args()
(pathlib.Path(os.environ["SM_MODEL_DIR"]) / "weights.bin").write_bytes(bytes(args.megabytes * 2**20 + 1))
print("samples=8 loss=0.5", flush=True)
time.sleep(args.seconds)
"""

EXPERIMENT = """\
script:
  source: code
  entry_point: waiter.py
  hyperparameters: {seconds: 5, megabytes: 0, seed: $seed}
  metrics: {loss: ' loss=([0-9.]+)$', samples: 'samples=(\\d+)'}
"""


@pytest.fixture
def waiter(tmp_path: Path) -> dict[str, object]:
    """Fields of a script that saves some bytes and sleeps, on all cores."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "waiter.py").write_text(WAITER)
    (tmp_path / "waiter.yaml").write_text(EXPERIMENT)
    return {"experiment": tmp_path / "waiter.yaml"}


@pytest.mark.slow
def test_stopping_a_job_reports_its_outcome_and_is_no_failure(
    command_line: CommandLine, waiter: dict[str, object]
) -> None:
    launcher = command_line.start("train", {**waiter, "script.hyperparameters.seconds": 300})
    name = _running_job(command_line)
    stopped = command_line.jobs("stop", name)
    assert stopped.returncode == 0, stopped.stderr
    first, outcome = stopped.stdout.splitlines()
    assert first == "Stopping 1 job. Each job has 120 s to end."
    assert re.fullmatch(rf"{name}: stopped after \d+ s", outcome)
    output, _ = launcher.communicate(timeout=400)
    assert launcher.returncode == 130, output
    assert "training: stopped after" in output
    assert "The training was stopped after" in output
    assert "fail" not in output
    [run], [group] = command_line.runs(), command_line.runs("group")
    assert (run.info.status, group.info.status) == ("KILLED", "KILLED")
    assert "**Stopped** after" in run.data.tags["mlflow.note.content"]
    assert group.info.run_name == "stopped (train waiter)"
    again = command_line.jobs("stop", name)
    assert (again.returncode, again.stdout) == (0, f"{name}: had already been stopped\n")


def _running_job(command_line: CommandLine) -> str:
    """Return the name of the job once its script has begun."""
    for _ in range(4000):
        for log in (command_line.folder / "home" / "jobs").glob("*/log.txt"):
            if "loss=" in log.read_text():
                return log.parent.name
        time.sleep(0.1)
    raise AssertionError("no job began")
