"""Commands on runs and state that an earlier version wrote."""

from __future__ import annotations

import json

from tests.end_to_end.conftest import CommandLine
from tests.support.earlier import COMPARISON, OPEN_TRAINING, unpack


def test_a_training_whose_launcher_left_is_reported_pruned_and_completed(command_line: CommandLine) -> None:
    unpack(command_line.folder)
    done = command_line("report", {"group": COMPARISON, "format": "json"})
    assert done.returncode == 0, done.stderr
    written = next(command_line.folder.glob("mlruns/1/*/artifacts/report/summary.json"))
    assert json.loads(done.stdout)["arms"] == json.loads(written.read_text())["arms"]
    done = command_line.jobs("prune", "--yes", "--older-than", "0h")
    assert done.returncode == 0, done.stdout + done.stderr
    left = sorted(path.name for path in (command_line.folder / "home" / "jobs").iterdir() if path.is_dir())
    assert left == [f"{OPEN_TRAINING}-none-a0r0"], "of an open group, whose end has not been recorded yet"
    done = command_line("attach", {"group": OPEN_TRAINING})
    assert done.returncode == 0, done.stderr
    statuses = {run.data.tags["platform.job_name"]: run.info.status for run in command_line.runs()}
    assert statuses[f"{OPEN_TRAINING}-none-a0r0"] == "FINISHED"
    assert len(statuses) == 5
