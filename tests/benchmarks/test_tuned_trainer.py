"""The plain script of the benchmarks trains what our job has trained."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from benchmarks.support.command import train
from benchmarks.tuning.plain_side import plain
from benchmarks.tuning.tuned_trainer import channels

FIELDS = {
    "experiment": "demo",
    "data.train_rows": "160",
    "data.validation_rows": "64",
    "batch_size": "16",
    "max_steps": "10",
    "eval_strategy": "end",
    "save_model": "false",
    "compiler": "none",
    "warmup_samples": "0",
    "base_learning_rate": "1e-3",
}


@pytest.mark.slow
def test_both_sides_reach_the_same_loss(tmp_path: Path) -> None:
    """One epoch with the same learning rates. The order of the rows and the new head's weights differ."""
    run = train(tmp_path, {**FIELDS, "precision": "fp32"})
    ours = float(run.result()["eval_loss"])
    theirs = plain(run, ("fp32", "eager"), 10)
    assert theirs["eval_loss"] == pytest.approx(ours, abs=0.25)
    # Without any learning, the loss would be about the logarithm of the number of packages.
    metadata = json.loads((channels(run.job.request())["train"] / "channel.json").read_text())
    assert theirs["eval_loss"] < 0.95 * math.log(len(metadata["label_names"]))
    assert theirs["samples_per_second"] > 0
