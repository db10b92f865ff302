"""GPT-2 from scratch on SST-2's sentences, small, through the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from mlflow import MlflowClient

from tests.end_to_end.conftest import CommandLine


@pytest.fixture
def sentences(shared: Path) -> dict[str, object]:
    """Fields that make the experiment of the published workload small and local."""
    return {
        "experiment": "sst2-gpt2",
        "data.train": shared / "data" / "sst2-train.tsv.gz",
        "data.validation": shared / "data" / "sst2-dev.tsv.gz",
        "data.train_rows": 800,
        "data.validation_rows": 60,
        "model_overrides": "{n_layer: 2, n_embd: 32, n_head: 2}",
        "max_length": 32,
        "batch_size": 16,
        "base_batch_size": 16,
        "base_learning_rate": 0.01,
        "max_steps": 40,
        "eval_strategy": "steps",
        "eval_steps": 20,
        "logging_steps": 20,
        "precision": "fp32",
        "machine.cores": 1,
    }


@pytest.mark.slow
def test_training_lowers_the_perplexity(command_line: CommandLine, sentences: dict[str, object]) -> None:
    done = command_line("train", sentences)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "perplexity" in done.stdout
    [run] = command_line.runs()
    assert run.info.status == "FINISHED"
    assert run.data.params["job.model_architecture"] == "GPT2LMHeadModel"
    assert run.data.params["hp.weights"] == "random"
    client = MlflowClient(command_line.uri)
    perplexities = [m.value for m in client.get_metric_history(run.info.run_id, "eval_perplexity")]
    # Untrained it is near the 50,257 tokens of the vocabulary.
    assert perplexities[-1] < perplexities[0] < 30_000
    assert perplexities[-1] < 3_000
