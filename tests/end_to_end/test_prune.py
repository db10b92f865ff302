"""`report`, `attach` and `train` work after `jobs prune` has deleted state of real trainings."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.conftest import CommandLine
from tests.support.job.tiny import TINY
from tests.support.services.following import until_unsupervised
from training.services.launcher import Job
from training.services.local.service import LocalService

SAVING = {"save_strategy": "steps", "save_steps": 4, "save_model": "true", "log_model": "false"}
LOOP = {"experiment": "torch_loop", "wait": "false", "compare.arms": "[{batch_size: 8}]", "compare.repeats": 2}


def names(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir() if path.is_dir())


@pytest.mark.slow
def test_commands_work_on_a_pruned_state_folder(command_line: CommandLine, reviews: dict[str, object]) -> None:
    home = command_line.folder / "home"
    trained = command_line("train", {**reviews, **TINY, **SAVING})
    assert trained.returncode == 0, trained.stdout + trained.stderr
    [first] = command_line.runs()
    first_name, first_group = (first.data.tags[f"platform.{name}"] for name in ("job_name", "group"))
    assert names(home / "checkpoints") == [first_name]
    started = command_line("compare", LOOP)
    assert started.returncode == 0, started.stdout + started.stderr
    second_name, second_group = (
        command_line.runs()[-1].data.tags[f"platform.{name}"] for name in ("job_name", "group")
    )
    Job(LocalService(home), second_name).wait()
    until_unsupervised(command_line.folder / "home")

    pruned = command_line.jobs("prune", "--yes", "--older-than", "0h")
    assert pruned.returncode == 0, pruned.stdout + pruned.stderr
    assert "Deleted 3 folders (" in pruned.stdout
    assert names(home / "jobs") == [second_name], "of an open group, whose end nobody has recorded yet"
    assert names(home / "checkpoints") == [second_name]
    assert names(home / "staged") == []
    assert len(names(home / "sources")) == 1
    assert Path(first.data.tags["platform.model_uri"].removeprefix("file://")).exists()

    listed = command_line.jobs("list")
    assert listed.returncode == 0
    assert [second_name in listed.stdout, first_name in listed.stdout] == [True, False]
    reported = command_line("report", {"group": first_group, "experiment": "demo"})
    assert reported.returncode == 0, reported.stdout + reported.stderr
    attached = command_line("attach", {"group": second_group})
    assert attached.returncode == 0, attached.stdout + attached.stderr
    assert [run.info.status for run in command_line.runs()] == ["FINISHED"] * 3
    # The same command stages its data again, and trains the same.
    again = command_line("train", {**reviews, **TINY, **SAVING})
    assert again.returncode == 0, again.stdout + again.stderr
    assert "Staged 64 + 16 rows" in again.stdout
    assert command_line.runs()[-1].data.metrics["eval_loss"] == pytest.approx(first.data.metrics["eval_loss"])
