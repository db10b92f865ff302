"""A trial decides once for a group, changes nothing in the training, and can be repeated with fixed values."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from compilation import dropout
from tests.conftest import ROOT
from tests.support.job.job_process import TORCHRUN, VOCABULARY, Job
from tuning.trial_steps import layer_stacks, undone

AUTO = {"precision": "auto", "attention": "auto", "dropout": "auto"}
CHOICES = ("precision", "attention", "dropout")
PATIENT = str(ROOT / "tests" / "support" / "job" / "patient.py")
GROUP = "demo-260101-120000-0123"
OTHER_GROUP = "demo-260101-120000-4567"


def in_group(job: Any, folder: Path, name: str = f"{GROUP}-none-a0r0") -> Any:
    """Return the job with the variables that planning and the service set."""
    job.environment |= {"TRAINFARE_DECISIONS_DIR": str(folder), "TRAINING_JOB_NAME": name}
    return job


def chosen(ended: Any) -> dict[str, str]:
    assert ended.code == 0, ended.output[-3000:]
    hyperparameters = ended.events("start")[0]["hyperparameters"]
    return {name: hyperparameters[name] for name in CHOICES}


def trial_notes(ended: Any) -> list[str]:
    return [event["message"] for event in ended.events("note") if event["message"].startswith("auto chose ")]


def set_decision(folder: Path, **values: str) -> None:
    """Change the values in all decisions."""
    for path in folder.glob("*.json"):
        decision = json.loads(path.read_text())
        decision["values"] |= values
        path.write_text(json.dumps(decision))


def test_a_training_after_a_trial_equals_one_with_the_chosen_values(
    new_job: Callable[[str], Any], tmp_path: Path
) -> None:
    """Equal to the bit: the trial restores weights and random states, and dropout draws the same numbers."""
    tried = in_group(new_job("tried"), tmp_path / "decisions").run([PATIENT], **AUTO)
    values = chosen(tried)
    assert set(values.values()) <= {"fp32", "bf16", "blockwise", "eager", "sdpa", "bulk", "torch"}
    fixed = new_job("fixed").run(**values)
    assert chosen(fixed) == values
    assert tried.losses == fixed.losses
    assert tried.result["metrics"]["eval_loss"] == fixed.result["metrics"]["eval_loss"]
    [note] = trial_notes(tried)
    assert all(value in note for value in values.values())
    metrics = tried.result["metrics"]
    rates = {name: value for name, value in metrics.items() if name.startswith("trial/") and "samples" in name}
    assert {
        "trial/fp32_eager_samples_per_second",
        "trial/fp32_blockwise_samples_per_second",
        "trial/dropout_torch_samples_per_second",
    } <= rates.keys()
    assert all(rate > 0 for rate in rates.values())
    assert metrics["trial/rows"] == 8
    phases = {event["phase"]: event["seconds"] for event in tried.events("phase")}
    assert metrics["time/trial_seconds"] == phases["trial"] > 0
    assert not [name for name in fixed.result["metrics"] if "trial" in name]


def test_the_first_job_of_a_group_decides_for_all(new_job: Callable[[str], Any], tmp_path: Path) -> None:
    folder = tmp_path / "decisions"
    first = in_group(new_job("first"), folder).run(**AUTO, max_steps=2)
    others = {"precision": "fp32", "attention": "sdpa", "dropout": "torch"}
    set_decision(folder, **others)
    second = in_group(new_job("second"), folder, f"{GROUP}-none-a1r0").run(**AUTO, max_steps=2, batch_size=4)
    assert chosen(second) == others
    assert not trial_notes(second)
    # The numbers are those of the first job's trial.
    rate = "trial/bf16_eager_samples_per_second"
    assert second.result["metrics"].get(rate) == first.result["metrics"].get(rate)
    # A fixed field stays as it is, and the others come from the group.
    third = in_group(new_job("third"), folder, f"{GROUP}-none-a2r0").run(**{**AUTO, "precision": "bf16"}, max_steps=2)
    assert chosen(third) == {**others, "precision": "bf16"}


def test_another_group_takes_over_a_decision_for_the_same_shapes_only(
    new_job: Callable[[str], Any], tmp_path: Path
) -> None:
    folder = tmp_path / "decisions"
    in_group(new_job("first"), folder).run([PATIENT], **AUTO, max_steps=2)
    others = {"precision": "fp32", "attention": "sdpa", "dropout": "torch"}
    set_decision(folder, **others)
    same = in_group(new_job("same"), folder, f"{OTHER_GROUP}-none-a0r0").run(**AUTO, max_steps=2, seed=1)
    assert chosen(same) == others
    assert "by demo-260101-120000-0123-none-a0r0" in trial_notes(same)[0]
    before = len(list(folder.glob("*.json")))
    larger = in_group(new_job("larger"), folder, "demo-260101-120000-89ab-none-a0r0")
    larger.run(**AUTO, max_steps=2, batch_size=16)
    # One for the group and one for the shapes, unless the trial was too noisy to be used again.
    assert len(list(folder.glob("*.json"))) in (before + 1, before + 2)


def test_a_resumed_job_keeps_the_values_of_its_checkpoint(job: Any, tmp_path: Path) -> None:
    folder = tmp_path / "decisions"
    job.environment["SM_CHECKPOINT_DIR"] = str(job.folder / "checkpoints")
    saving = {"save_strategy": "steps", "save_steps": 2}
    first = in_group(job, folder).run(**AUTO, **saving, epochs=2)
    values, losses = chosen(first), first.losses
    # The training is interrupted after its checkpoint of step 2, and the group's decision is lost.
    for checkpoint in (job.folder / "checkpoints").glob("checkpoint-*"):
        if checkpoint.name != "checkpoint-2":
            checkpoint.rename(tmp_path / checkpoint.name)
    swapped = {
        "precision": {"fp32": "bf16"},
        "attention": {"eager": "sdpa", "blockwise": "sdpa"},
        "dropout": {"bulk": "torch"},
    }
    set_decision(folder, **{name: swap.get(values[name], next(iter(swap))) for name, swap in swapped.items()})
    (job.folder / "output/data/events.jsonl").unlink()
    resumed = in_group(job, folder).run(**AUTO, **saving, epochs=2)
    assert chosen(resumed) == values
    assert resumed.events("start")[0]["resumed_from_step"] == 2
    assert not trial_notes(resumed)
    assert resumed.losses == losses[2:]


def test_without_a_shared_folder_the_rules_decide(job: Any) -> None:
    ended = job.run(**AUTO, max_steps=2)
    values = chosen(ended)
    assert values["attention"] == "blockwise"
    assert values["dropout"] == "bulk"
    assert "trial" not in {event["phase"] for event in ended.events("phase")}


def test_a_model_that_changes_its_scores_keeps_eager_attention(tmp_path: Path) -> None:
    """Gemma 2 limits its scores, which blockwise attention does not."""
    transformers.set_seed(1)
    config = transformers.Gemma2Config(
        vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
        head_dim=8, intermediate_size=32, max_position_embeddings=16, pad_token_id=0,
    )  # fmt: skip
    transformers.Gemma2ForSequenceClassification(config).save_pretrained(tmp_path / "gemma")
    ended = Job(tmp_path / "job", tmp_path / "gemma").run(**AUTO, max_steps=2)
    assert chosen(ended)["attention"] == "eager"


@pytest.mark.slow
def test_several_processes_use_the_same_values(job: Any, tmp_path: Path) -> None:
    ended = in_group(job, tmp_path / "decisions").run(TORCHRUN, **AUTO, max_steps=2)
    assert set(chosen(ended).values()) <= {"fp32", "bf16", "blockwise", "eager", "sdpa", "bulk", "torch"}
    assert len(trial_notes(ended)) == 1


def test_trial_steps_leave_no_trace() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.config = torch.nn.BatchNorm1d(3), type("Config", (), {"use_cache": True})()
            self.layers = torch.nn.ModuleList([torch.nn.Linear(3, 3) for _ in range(3)])
            self.heads = torch.nn.ModuleList([torch.nn.Linear(3, 3), torch.nn.Identity()])

    model = Model().eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    states = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()
    threads = torch.get_num_threads()
    with undone(model):
        assert model.training
        assert model.config.use_cache is False
        dropout.install()
        torch.set_num_threads(threads + 1)
        random.random(), np.random.rand()
        assert layer_stacks(model) == [model.layers]
        del model.layers._modules["1"], model.layers._modules["2"]
        output = torch.nn.functional.dropout(model.norm(torch.randn(5, 3)), 0.5)
        output.sum().backward()
    assert not model.training
    assert model.config.use_cache is True
    assert list(model.layers._modules) == ["0", "1", "2"]
    assert torch.get_num_threads() == threads
    assert torch.nn.functional.dropout.__module__ == "torch.nn.functional"
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert random.getstate() == states[0]
    assert np.random.get_state()[1].tolist() == states[1]
    assert torch.equal(torch.get_rng_state(), states[2])
