"""Rules choose the values of `auto`, and a resumed job keeps those of its checkpoint."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import transformers

from tests.support.job.arguments import job_argv
from tests.support.job.job_process import VOCABULARY, Job
from training.job.loop.prepared_model import prepare
from training.job.processes.reporting import Events
from training.job.settings.job_settings import resolve_settings

AUTO = {"precision": "auto", "attention": "auto"}


def chosen(ended: Any) -> dict[str, str]:
    assert ended.code == 0, ended.output[-3000:]
    hyperparameters = ended.events("start")[-1]["hyperparameters"]
    return {name: hyperparameters[name] for name in AUTO}


def test_rules_choose_without_a_trial(job: Any, tmp_path: Path) -> None:
    # Earlier versions shared the outcome of trials in this folder.
    job.environment |= {"TRAINFARE_DECISIONS_DIR": str(tmp_path), "TRAINING_JOB_NAME": "demo-260101-120000-0123"}
    ended = job.run(**AUTO, max_steps=2)
    flags = Path("/proc/cpuinfo").read_text().split()
    is_fast = "amx_bf16" in flags or ("avx512_bf16" in flags and "AuthenticAMD" in flags)
    precision = "bf16" if is_fast else "fp32"
    assert chosen(ended) == {"precision": precision, "attention": "blockwise"}
    assert "trial" not in {event["phase"] for event in ended.events("phase")}
    assert not [name for name in ended.result["metrics"] if "trial" in name]


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


@pytest.mark.parametrize("in_use", ["sdpa", "eager"])
def test_on_a_gpu_the_choice_of_transformers_is_recorded(job: Job, in_use: str) -> None:
    config = transformers.BertConfig(
        vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32
    )
    model: Any = transformers.BertForSequenceClassification._from_config(config, attn_implementation=in_use)
    settings = resolve_settings(job_argv(), job.environment, Events(enabled=False))
    # As the settings are on a GPU.
    settings = replace(settings, device_kind="cuda", attention="auto")
    assert prepare(model, settings).attention == in_use


def test_a_resumed_job_keeps_the_values_of_its_checkpoint(job: Any) -> None:
    """The checkpoint's values are not those of the rules: its trial, or another CPU, had chosen them."""
    job.environment["SM_CHECKPOINT_DIR"] = str(job.folder / "checkpoints")
    saving = {"save_strategy": "steps", "save_steps": 2, "epochs": 2}
    values = {"precision": "fp32", "attention": "eager"}
    losses = job.run(**values, **saving).losses
    for checkpoint in (job.folder / "checkpoints").glob("checkpoint-*"):
        if checkpoint.name != "checkpoint-2":
            checkpoint.rename(job.folder / checkpoint.name)
    (job.folder / "output/data/events.jsonl").unlink()
    resumed = job.run(**AUTO, **saving)
    assert chosen(resumed) == values
    assert resumed.events("start")[0]["resumed_from_step"] == 2
    assert resumed.losses == losses[2:]
