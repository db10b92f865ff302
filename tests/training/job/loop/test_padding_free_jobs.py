"""Jobs without padding train as jobs with padding do."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from typing import Any

import pytest
from safetensors.torch import load_file

from tests.support.job.job_process import TORCHRUN

NewJob = Callable[[str], Any]


def without_dropout(job: Any) -> Any:
    folder = job.folder.parent / f"model of {job.folder.name}"
    shutil.copytree(job.environment["SM_CHANNEL_MODEL"], folder)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    job.environment["SM_CHANNEL_MODEL"] = str(folder)
    return job


def test_a_job_has_the_losses_and_the_scores_of_a_padded_one(new_job: NewJob) -> None:
    # In the order of the rows' numbers, batches have rows of different lengths.
    arguments = {"max_steps": 12, "learning_rate": 0.01, "length_grouping": False}
    padded = without_dropout(new_job("padded")).run(padding="longest", **arguments)
    packed = without_dropout(new_job("packed")).run(padding="none", **arguments)
    assert packed.losses == pytest.approx(padded.losses, rel=1e-4)
    metrics, own = padded.result["metrics"], packed.result["metrics"]
    assert own["eval_loss"] == pytest.approx(metrics["eval_loss"], rel=1e-4)
    assert own["eval_f1_macro"] == metrics["eval_f1_macro"]
    assert (own["padding/efficiency"], metrics["padding/efficiency"] < 0.9) == (1.0, True)
    used = packed.events("start")[0]["hyperparameters"]
    assert (used["padding"], used["attention"]) == ("none", "auto")
    configurations = [(each.folder / "model/config.json").read_text("utf-8") for each in (padded, packed)]
    assert configurations[0] == configurations[1]


@pytest.mark.slow
def test_two_processes_train_as_one(new_job: NewJob) -> None:
    arguments = {"padding": "none", "max_steps": 6, "learning_rate": 0.01, "length_grouping": False}
    one = without_dropout(new_job("one")).run(**arguments, batch_size=8)
    two = without_dropout(new_job("two")).run(TORCHRUN, **arguments, batch_size=4)
    assert two.result["metrics"]["eval_loss"] == pytest.approx(one.result["metrics"]["eval_loss"], rel=1e-3)
    assert two.result["metrics"]["padding/efficiency"] == 1.0


@pytest.mark.slow
def test_a_resumed_job_ends_with_the_same_weights(new_job: NewJob) -> None:
    arguments = {"padding": "none", "learning_rate": 0.01, "max_steps": 9}
    whole = without_dropout(new_job("whole")).run(**arguments)
    job = without_dropout(new_job("resumed"))
    job.environment["SM_CHECKPOINT_DIR"] = str(job.folder / "checkpoints")
    saving = {**arguments, "save_strategy": "steps", "save_steps": 4}
    job.run(**saving)
    # The job then starts anew from the checkpoint of step 4.
    shutil.rmtree(job.folder / "checkpoints/checkpoint-9", ignore_errors=True)
    shutil.rmtree(job.folder / "checkpoints/checkpoint-8")
    resumed = job.run(**saving)
    assert resumed.events("start")[-1]["resumed_from_step"] == 4
    weights, own = (load_file(each.folder / "model/model.safetensors") for each in (whole, resumed))
    assert all((own[name] - weight).abs().max() < 1e-5 for name, weight in weights.items())


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields",
    [
        {"calibration_batch_sizes": "4,8", "calibration_seconds": 0.2},
        {"probe_precision": 0.5, "probe_samples": 80, "epochs": 4},
    ],
)
def test_a_calibration_and_a_probe_run_without_padding(job: Any, fields: dict[str, Any]) -> None:
    assert job.run(padding="none", **fields).result["metrics"]
