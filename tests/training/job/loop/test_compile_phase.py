"""Nothing is compiled after the compile phase, which does not change the training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from tests.support.job.arguments import job_argv
from training.job.compilation.compilers import NoCompiler
from training.job.data.padding import IS_COMPLETE
from training.job.loop.compile_phase import steps_per_shape
from training.job.loop.job_trainer import JobTrainer
from training.job.measuring.meter import Meter, clock_for
from training.job.processes.reporting import Events
from training.job.settings.job_settings import resolve_settings
from training.job.weights.checkpoints import NO_PROGRESS, CheckpointKeeper

BUCKETS = {"padding": "buckets", "bucket_lengths": "6,12", "max_steps": 12}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile cache that the trainings share, as on a machine that runs several."""
    return tmp_path_factory.mktemp("inductor")


def run(job: Any, cache: Path, **arguments: Any) -> Any:
    job.environment["TORCHINDUCTOR_CACHE_DIR"] = str(cache)
    # Dropout draws different numbers inside a compiled program.
    job.without_dropout()
    return job.run(learning_rate=0.01, **arguments)


@pytest.mark.slow
def test_a_second_job_uses_the_compile_cache_and_losses_are_equal(
    new_job: Callable[[str], Any], tmp_path: Path
) -> None:
    cache, tuned = tmp_path / "inductor", {"compiler": "inductor", "compile_mode": "max-autotune", **BUCKETS}
    cold = run(new_job("cold"), cache, eval_strategy="steps", eval_steps=5, **tuned)
    warm = run(new_job("warm"), cache, **tuned)
    eager = run(new_job("eager"), cache, compiler="none", **BUCKETS)
    assert [ended.result["cache_state"] for ended in (cold, warm, eager)] == ["cold", "warm", "off"]
    for ended in (cold, warm):
        metrics = ended.result["metrics"]
        assert metrics["compile/recompiles"] == 0
        assert metrics["compile/graphs"] >= 1
        assert ended.losses == pytest.approx(eager.losses, rel=1e-3)
        assert metrics["eval_loss"] == pytest.approx(eager.result["metrics"]["eval_loss"], rel=1e-3)
        assert metrics["time/compile_seconds"] > metrics["time/warmup_seconds"]
    assert "time/compile_seconds" not in eager.result["metrics"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"compile_scope": "model"}, "inductor compiles 1 x BertForSequenceClassification, one program for all"),
        ({"compile_dynamic": "false"}, "inductor compiles 2 x BertLayer, one program per shape"),
        ({"compile_mode": "max-autotune-no-cudagraphs"}, "lengths, mode max-autotune-no-cudagraphs;"),
    ],
)
def test_options_of_inductor_train_the_same(
    new_job: Callable[[str], Any], cache: Path, options: dict[str, str], said: str
) -> None:
    ended = run(new_job("options"), cache, compiler="inductor", **options, **BUCKETS)
    eager = run(new_job("eager"), cache, compiler="none", **BUCKETS)
    assert any(said in event["message"] for event in ended.events("note")), ended.events("note")
    assert ended.losses == pytest.approx(eager.losses, rel=1e-3)
    assert ended.result["metrics"]["compile/recompiles"] == 0
    [start] = ended.events("start")
    for name, value in options.items():
        assert str(start["hyperparameters"][name]).lower() == value


def test_cuda_graphs_are_recorded_before_the_first_step() -> None:
    modes = ("reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs", "default")
    assert [steps_per_shape("cuda", mode) for mode in modes] == [3, 3, 1, 1]
    assert steps_per_shape("cpu", "reduce-overhead") == 1


class CountingCompiler(NoCompiler):
    """Counts the steps that begin, and the batches that run without it."""

    steps = uncompiled = 0
    marks_steps = True

    @contextmanager
    def eager(self) -> Iterator[None]:
        self.uncompiled += 1
        yield

    def begin_step(self) -> None:
        self.steps += 1


def counted(job: Any, **arguments: Any) -> tuple[JobTrainer, CountingCompiler]:
    config = BertConfig(
        vocab_size=32, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8, num_labels=2
    )
    compiler = CountingCompiler()
    settings = resolve_settings(job_argv(**arguments), job.environment, Events(enabled=False))
    trainer = JobTrainer(
        replace(settings, compiler=compiler),
        BertForSequenceClassification(config),
        Meter(clock_for("cpu"), 1),
        CheckpointKeeper(None, 1, {}, NO_PROGRESS, None, None),
    )
    trainer.create_optimizer()
    trainer.current_gradient_accumulation_steps = trainer.args.gradient_accumulation_steps
    return trainer, compiler


def batch(**flags: bool) -> dict[str, Any]:
    return {"input_ids": torch.ones(2, 4).long(), "labels": torch.tensor([0, 1]), **flags}


def test_an_incomplete_batch_runs_without_the_compiler(job: Any) -> None:
    trainer, compiler = counted(job)
    for flags, uncompiled in (({}, 0), ({IS_COMPLETE: True}, 0), ({IS_COMPLETE: False}, 1)):
        trainer.training_step(trainer.model, batch(**flags))
        assert compiler.uncompiled == uncompiled


def test_gradients_of_the_first_batch_outlive_the_second(job: Any) -> None:
    (trainer, compiler), begun = counted(job, gradient_accumulation_steps=2), []
    for _ in range(2):
        for _ in range(2):
            trainer.training_step(trainer.model, batch())
            begun.append(compiler.steps)
        trainer.model.zero_grad()
    assert begun == [1, 1, 2, 2]
