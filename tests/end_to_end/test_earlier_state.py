"""`report`, `attach` and `prune` on runs and state that an earlier version wrote."""

from __future__ import annotations

import json

import pytest

from tests.end_to_end.conftest import CommandLine
from tests.support.earlier import COMPARISON, OPEN_TRAINING, unpack


@pytest.fixture
def earlier(command_line: CommandLine) -> CommandLine:
    """The command line on the earlier database and state folder."""
    unpack(command_line.folder)
    return command_line


def test_a_report_gives_the_same_figures(earlier: CommandLine) -> None:
    done = earlier("report", {"group": COMPARISON, "format": "json"})
    assert done.returncode == 0, done.stderr
    written = next(earlier.folder.glob("mlruns/1/*/artifacts/report/summary.json"))
    assert json.loads(done.stdout)["arms"] == json.loads(written.read_text())["arms"]


def test_attach_completes_a_training_whose_launcher_left(earlier: CommandLine) -> None:
    done = earlier("attach", {"group": OPEN_TRAINING})
    assert done.returncode == 0, done.stderr
    statuses = {run.data.tags["platform.job_name"]: run.info.status for run in earlier.runs()}
    assert statuses[f"{OPEN_TRAINING}-none-a0r0"] == "FINISHED"
    assert len(statuses) == 5


def test_prune_deletes_only_the_folders_of_ended_jobs(earlier: CommandLine) -> None:
    done = earlier.jobs("prune", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    left = sorted(path.name for path in (earlier.folder / "home" / "jobs").iterdir() if path.is_dir())
    assert left == [f"{OPEN_TRAINING}-none-a0r0"], "of an open group, whose end has not been recorded yet"
