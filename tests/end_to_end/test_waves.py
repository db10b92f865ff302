"""Comparisons whose repeats come in waves and stop by themselves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from tests.end_to_end.conftest import CommandLine, text
from tests.support.job.tiny import TINY
from tracking.queries.job_tables import tags_of

# The batch size decides how long a job takes and how good its model is. The jobs differ by seconds, more than a busy
# machine adds.
SCRIPT = """\
import argparse, time
parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int)
parser.add_argument("--seed", type=int)
args = parser.parse_args()
print("samples=64")
time.sleep({4: 12.0, 8: 0.2, 16: 0.2, 32: 14.4}[args.batch_size])
print("eval_accuracy=%.4f" % ((0.6 if args.batch_size == 16 else 0.9) + 0.001 * (args.seed % 3)))
"""

EXPERIMENT = """\
script:
  source: code
  entry_point: pause.py
  hyperparameters: {batch-size: $batch_size, seed: $seed}
  metrics: {samples: 'samples=(\\d+)', eval_accuracy: 'eval_accuracy=(.*)'}
machine: {cores: 1}
compare:
  arms: [{batch_size: 8}, {batch_size: 4}]
"""


@pytest.fixture
def pause(tmp_path: Path) -> Path:
    """The experiment file of a script whose cost and quality depend on its batch size."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "pause.py").write_text(SCRIPT)
    (tmp_path / "pause.yaml").write_text(EXPERIMENT)
    return tmp_path / "pause.yaml"


def summary(command_line: CommandLine) -> dict[str, Any]:
    [group] = command_line.runs("group")
    folder = command_line.folder / "home" / "reports" / group.data.tags["platform.group"]
    document: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return document


def arms(command_line: CommandLine) -> list[str]:
    return [run.data.tags["arm"] for run in command_line.runs()]


def jobs_of_waves(command_line: CommandLine) -> int:
    """Return the number of jobs, which are whole waves. On a disturbed machine the first one may not be enough."""
    labels = arms(command_line)
    repeats = len(labels) // 2
    assert sorted(labels) == ["batch 4"] * repeats + ["batch 8"] * repeats
    assert repeats in (3, 5, 7)
    return len(labels)


def test_a_clear_comparison_stops_by_itself(command_line: CommandLine, pause: Path) -> None:
    done = command_line("compare", {"experiment": pause})
    assert done.returncode == 0, done.stdout + done.stderr
    assert arms(command_line)[:6] == ["batch 8", "batch 4", "batch 4", "batch 8", "batch 4", "batch 8"]
    assert "After 3 repeats:" in text(done)
    assert "stops: it is dearer" in text(done)
    stopped = f"stopped by itself after {jobs_of_waves(command_line)} of at most 18 jobs"
    assert stopped in text(done)
    before = summary(command_line)
    [contrast] = before["contrasts"]
    assert contrast["outcome"] == "not cheaper"
    [group] = command_line.runs("group")
    report = command_line("report", {"group": group.data.tags["platform.group"]})
    assert report.returncode == 0, report.stdout + report.stderr
    assert summary(command_line) == before
    assert stopped in MlflowClient(command_line.uri).get_run(group.info.run_id).data.tags["mlflow.note.content"]


def test_all_repeats_run_and_a_result_that_the_user_names_fails_the_command(
    command_line: CommandLine, pause: Path
) -> None:
    dearer = {"fail-on": "worse,dearer"}
    # On a disturbed machine, a comparison that stops early may only know that the arm is not cheaper.
    all_repeats = {"compare.stop": "never", "compare.repeats": "4"}
    done = command_line("compare", {"experiment": pause, **dearer, **all_repeats})
    assert done.returncode == 3, done.stdout + done.stderr
    assert done.stderr.splitlines()[-1] == "--fail-on dearer: “batch 4”."
    assert sorted(arms(command_line)) == ["batch 4"] * 4 + ["batch 8"] * 4
    assert "After 4 repeats:" in text(done)
    assert "After 3 repeats:" not in text(done)
    [group] = command_line.runs("group")
    of_group = {"group": group.data.tags["platform.group"]}
    assert command_line("report", {**of_group, "fail-on": "worse"}).returncode == 0
    assert command_line("report", {**of_group, "fail-on": "dearer"}).returncode == 3


@pytest.mark.slow
def test_disturbed_jobs_are_repeated_once(command_line: CommandLine, reviews: dict[str, object]) -> None:
    two = {"compare.arms": "[{batch_size: 8}, {batch_size: 16}]", "compare.baseline": "batch 8", "save_model": "false"}
    twice = {"compare.repeats": 2, "compare.stop": "never", "compare.when_disturbed": "repeat"}
    busy = [sys.executable, "-c", "while True: pass"]
    neighbours = [subprocess.Popen(busy, start_new_session=True) for _ in range(max(1, (os.cpu_count() or 1) // 8))]
    try:
        done = command_line("compare", {**reviews, **TINY, **two, **twice})
    finally:
        for neighbour in neighbours:
            neighbour.kill()
            neighbour.wait()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 jobs, and one more for each that is disturbed" in text(done)
    runs = command_line.runs()
    assert [run.data.tags.get("platform.role") for run in runs] == [None] * 4 + ["again"] * 4
    assert [run.info.run_name for run in runs[4:]] == [f"{run.info.run_name}, again" for run in runs[:4]]
    assert all("other processes used" in tags_of(run)["platform.disturbed"] for run in runs)
    assert "8 of 8 jobs were disturbed" in text(done)
    assert {arm["repeats"] for arm in summary(command_line)["arms"]} == {2}


def test_a_killed_comparison_continues_its_wave(command_line: CommandLine, pause: Path) -> None:
    with command_line.start("compare", {"experiment": pause}) as launcher:
        while len(command_line.runs()) < 3 and launcher.poll() is None:
            time.sleep(0.1)
        launcher.send_signal(signal.SIGKILL)
    again = command_line("compare", {"experiment": pause})
    assert again.returncode == 0, again.stdout + again.stderr
    assert jobs_of_waves(command_line) < 18
    [group] = command_line.runs("group")
    assert json.loads(group.data.tags["platform.design"])["looks"] == [3, 5, 7, 9]
