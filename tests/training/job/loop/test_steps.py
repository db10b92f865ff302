"""Counts of a training step that need no GPU: operations, reads, bytes, shapes and tensors."""

from __future__ import annotations

import copy
import gc
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch.utils._python_dispatch import TorchDispatchMode

from tests.support.job.arguments import job_argv
from tests.support.job.job_process import VOCABULARY, Job
from training.job.compilation import blockwise
from training.job.data.padding import IS_PADDED
from training.job.loop.attention_masks import AttentionMasks
from training.job.loop.job_trainer import JobTrainer, trainer_arguments
from training.job.loop.prepared_model import prepare
from training.job.measuring.meter import Meter, clock_for
from training.job.processes.reporting import Events
from training.job.settings.job_settings import resolve_settings
from training.job.weights.checkpoints import NO_PROGRESS, CheckpointKeeper
from training.job.weights.pretrained import set_attention

BERT = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
FAMILIES = {
    "bert": BERT,
    "distilbert": {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32},
    "gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 2, "bos_token_id": 1, "eos_token_id": 1},
    "llama": BERT,
    "roberta": BERT,
}
READ = "aten._local_scalar_dense.default"


def model_of(family: str) -> Any:
    transformers.set_seed(1)
    config = transformers.AutoConfig.for_model(family, vocab_size=VOCABULARY, pad_token_id=0, **FAMILIES[family])
    return transformers.AutoModelForSequenceClassification.from_config(config)


class Steps(TorchDispatchMode):
    """Counts the operations of each optimizer step of a trainer, and keeps its batches."""

    def __init__(self, trainer: Any) -> None:
        super().__init__()
        self.counts = [Counter[str]()]
        self.batches: list[dict[str, Any]] = []
        self.tensors: list[int] = []
        step = trainer.training_step

        def recorded(model: Any, inputs: dict[str, Any], *args: Any) -> Any:
            tensors = [each for each in inputs.values() if torch.is_tensor(each)]
            ids, size = inputs["input_ids"].tolist(), sum(each.nbytes for each in tensors)
            self.batches.append({"ids": ids, "bytes": size, IS_PADDED: inputs.get(IS_PADDED)})
            return step(model, inputs, *args)

        trainer.training_step = recorded
        trainer.add_callback(type("Ends", (transformers.TrainerCallback,), {"on_step_end": self._end}))

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.counts[-1][str(function)] += 1
        return function(*args, **(kwargs or {}))

    def _end(self, *_: Any, **__: Any) -> None:
        self.counts.append(Counter())
        self.tensors.append(sum(isinstance(each, torch.Tensor) for each in gc.get_objects()))


def job_trainer(job: Job, model: Any, **arguments: Any) -> JobTrainer:
    """Return the trainer of a job that logs only its first step."""
    settings = resolve_settings(job_argv(logging_steps=1000, **arguments), job.environment, Events(enabled=False))
    keeper = CheckpointKeeper(None, 1, {}, NO_PROGRESS, None, None)
    return JobTrainer(prepare(model, settings), model, Meter(clock_for("cpu"), 1), keeper)


def trained(trainer: Any) -> Steps:
    with Steps(trainer) as steps:
        trainer.train()
    return steps


@pytest.mark.parametrize(
    ("family", "precision"),
    [
        *((family, "fp32") for family in FAMILIES),
        *(pytest.param(family, "bf16", marks=[pytest.mark.slow] if family != "llama" else []) for family in FAMILIES),
    ],
)
def test_a_step_reads_nothing_and_needs_no_more_operations_than_trainers(job: Job, family: str, precision: str) -> None:
    ours = job_trainer(job, model_of(family), precision=precision, batch_size=4, max_steps=12, attention="sdpa")
    plain = transformers.Trainer(
        copy.deepcopy(ours.model), trainer_arguments(ours.settings), ours._eval_collator, ours.train_dataset
    )
    plain._get_train_sampler = lambda *_: ours.sampler
    mine, theirs = trained(ours), trained(plain)
    assert {batch[IS_PADDED] for batch in mine.batches[1:]} == {True, False}
    for batch, other in zip(mine.batches, theirs.batches, strict=True):
        assert batch["ids"] == other["ids"]
    # The first step is logged, so its loss is read, after the end of the step.
    assert [step[READ] for step in mine.counts[2:11]] == [0] * 9
    assert min(step[READ] for step in theirs.counts[2:11]) > 0
    for step, other in zip(mine.counts[2:11], theirs.counts[2:11], strict=True):
        aten, others = (sum(count for name, count in each.items() if "aten" in name) for each in (step, other))
        assert 50 < aten <= others


@pytest.mark.parametrize("attention", ["sdpa", "eager", "blockwise"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_masks_are_those_of_transformers(family: str, attention: str) -> None:
    model = model_of(family)
    assert blockwise.register()
    masks = AttentionMasks(model)
    assert set_attention(model, attention)
    ids = torch.randint(2, VOCABULARY, (3, 7))
    for shortest in (4, 7):
        mask = (torch.arange(7) >= torch.tensor([[0], [7 - shortest], [0]])).long()
        batch = {"input_ids": ids * mask, "attention_mask": mask, "labels": torch.tensor([0, 1, 0])}
        results = []
        for is_padded in (None, shortest < 7):
            model.zero_grad()
            with masks.of_batch(is_padded):
                output = model.eval()(**batch)
            output.loss.backward()
            results.append([output.logits, *(each.grad for each in model.parameters() if each.grad is not None)])
        assert all(map(torch.equal, *results))
        # The padding is on the left, where even GPT-2 would see it.
        with masks.of_batch(False):
            assert torch.equal(model(**batch).logits, results[0][0]) == (shortest == 7)


def test_a_training_copies_what_the_model_needs_in_few_shapes_and_keeps_no_tensor(job: Job) -> None:
    trainer = job_trainer(job, model_of("bert"), max_steps=16, drop_last=True, padding="buckets", bucket_lengths="6,12")
    steps = trained(trainer)
    # Token ids and mask of 8 rows, and their labels, of 8 bytes each.
    sizes = {len(batch["ids"][0]): batch["bytes"] for batch in steps.batches}
    assert sizes == {6: 8 * (2 * 8 * 6 + 8), 12: 8 * (2 * 8 * 12 + 8)}
    assert max(steps.tensors[10:]) <= max(steps.tensors[:10])


def test_modes_change_and_gradients_are_cleared_without_a_walk_through_the_model(job: Job, tmp_path: Path) -> None:
    trainer = job_trainer(job, model_of("bert"), max_steps=2)
    trainer.train()
    model, last = trainer.model, list(trainer.model.modules())[-1]
    for training in (False, True):
        assert model.train(training) is model
        assert {each.training for each in model.modules()} == {training}
    last.training = False
    model.train()
    assert not last.training
    assert model.eval().train() is model
    assert last.training
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    model.zero_grad()
    assert {parameter.grad for parameter in model.parameters()} == {None}
