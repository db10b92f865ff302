"""A compiler's step begins with an optimizer step, not with each of its batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import BertConfig, BertForSequenceClassification, TrainingArguments

from checkpoints.checkpoint_files import NO_PROGRESS
from checkpoints.retention import CheckpointKeeper
from compilation.compilers import NoCompiler
from loop.job_trainer import JobTrainer
from measuring.clocks import clock_for
from measuring.meter import Meter

TINY = BertConfig(
    vocab_size=32, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8, num_labels=2
)


class CountingCompiler(NoCompiler):
    """Counts the steps that begin."""

    steps = 0
    marks_steps = True

    def begin_step(self) -> None:
        self.steps += 1


def trainer_with(compiler: NoCompiler, folder: Path) -> JobTrainer:
    """Return a trainer that accumulates the gradients of two batches."""
    unused: Any = None
    trainer = JobTrainer(
        meter=Meter(clock_for("cpu"), 1, lambda *_: None),
        compiler=compiler,
        sampler=unused,
        eval_sampler=unused,
        eval_collator=unused,
        scorer=None,
        keeper=CheckpointKeeper(None, 1, {}, NO_PROGRESS, None, None),
        model=BertForSequenceClassification(TINY),
        args=TrainingArguments(str(folder), use_cpu=True, report_to=[], gradient_accumulation_steps=2),
    )
    trainer.current_gradient_accumulation_steps = 2
    return trainer


def test_gradients_of_the_first_batch_outlive_the_second(tmp_path: Path) -> None:
    compiler = CountingCompiler()
    trainer = trainer_with(compiler, tmp_path)
    begun = []
    for _ in range(2):
        for _ in range(2):
            trainer.training_step(trainer.model, {"input_ids": torch.ones(2, 4).long(), "labels": torch.tensor([0, 1])})
            begun.append(compiler.steps)
        trainer.model.zero_grad()
    assert begun == [1, 1, 2, 2]
