"""A sharded model trains like a whole one. Saved models and checkpoints are those of a training without sharding."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.conftest import ROOT
from tests.support.fork_server.interpreter import forking_interpreter
from tests.support.job.job_process import TORCHRUN

PARTS = ROOT / "tests" / "support" / "job" / "sharded_parts.py"

NewJob = Callable[[str], Any]

TRAINING = {
    "batch_size": 4,
    "gradient_accumulation_steps": 2,
    "epochs": 2,
    "learning_rate": 0.01,
    "weight_decay": 0.01,
    # A small epsilon would turn rounding errors into whole steps of weights without a gradient.
    "adam_epsilon": 1e-3,
    "eval_strategy": "steps",
    "eval_steps": 3,
    "save_strategy": "steps",
    "save_steps": 3,
    # All embeddings are trained, as with sharding.
    "optimizer": "adamw",
    "precision": "fp32",
}


def assert_equal_models(job: Any, expected: Any) -> None:
    weights, whole = (load_file(each.folder / "model/model.safetensors") for each in (job, expected))
    assert sorted(weights) == sorted(whole)
    for name, values in whole.items():
        torch.testing.assert_close(weights[name], values, atol=1e-5, rtol=1e-4, msg=name)
    configurations = [json.loads((each.folder / "model/config.json").read_text()) for each in (job, expected)]
    assert configurations[0] == configurations[1]


def test_each_process_holds_a_part_and_only_the_first_needs_the_saved_model(tiny_model: Path) -> None:
    run = subprocess.run(
        [forking_interpreter(), *TORCHRUN, str(PARTS), str(tiny_model)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=480,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    printed = json.loads(run.stdout.splitlines()[-1])
    assert sum(printed["parts"]) == printed["whole"]
    assert max(printed["parts"]) < 0.6 * printed["whole"]
    assert printed["differing"] == []


def test_one_process_trains_the_same_with_sharding(new_job: NewJob) -> None:
    whole, sharded = (new_job(name).with_checkpoints() for name in ("none", "fsdp2"))
    expected = whole.run(**TRAINING)
    ended = sharded.run(sharding="fsdp2", **TRAINING)
    assert ended.result["metrics"]["eval_loss"] == pytest.approx(expected.result["metrics"]["eval_loss"], rel=1e-4)
    assert ended.losses == pytest.approx(expected.losses, rel=1e-4)
    assert_equal_models(sharded, whole)


@pytest.mark.slow
def test_two_processes_train_and_resume_the_same_with_sharding(new_job: NewJob) -> None:
    whole, sharded = (new_job(name).with_checkpoints() for name in ("none", "fsdp2"))
    expected = whole.run(TORCHRUN, **TRAINING)
    ended = sharded.run(TORCHRUN, sharding="fsdp2", **TRAINING)
    losses = ended.losses
    assert losses == pytest.approx(expected.losses, rel=1e-4)
    assert_equal_models(sharded, whole)
    checkpoints = [job.folder / "checkpoints/checkpoint-6" for job in (sharded, whole)]
    names = [sorted(path.name for path in checkpoint.iterdir()) for checkpoint in checkpoints]
    assert names[0] == names[1]

    for folder in (sharded.folder / "checkpoints").iterdir():
        if folder.name != "checkpoint-3":
            shutil.rmtree(folder)
    shutil.rmtree(sharded.folder / "model")
    resumed = sharded.run(TORCHRUN, sharding="fsdp2", **TRAINING)
    assert resumed.events("start")[-1]["resumed_from_step"] == 3
    # The events of both starts are in one file.
    assert resumed.losses == losses + losses[3:]
    assert_equal_models(sharded, whole)


@pytest.mark.slow
def test_compiled_layers_train_the_same_with_sharding(new_job: NewJob) -> None:
    arguments = {**TRAINING, "compiler": "inductor", "save_strategy": "none", "max_steps": 3, "epochs": None}
    results = [new_job(name).run(TORCHRUN, sharding=name, **arguments) for name in ("none", "fsdp2")]
    assert results[1].losses == pytest.approx(results[0].losses, rel=1e-4)
    assert results[1].result["metrics"]["compile/recompiles"] == 0
