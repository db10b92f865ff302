"""On a GPU, a trial tries only what the model has and what needs little memory. The rest is tried on a GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import transformers

from reporting.events import Events
from settings.job_settings import Settings, resolve_settings
from tests.support.job.arguments import job_argv
from tests.support.job.job_process import VOCABULARY, Job
from tuning.attention_candidates import can_use, score_bytes
from tuning.thread_control import ThreadControl
from tuning.trial import open_fields, with_attention_in_use

BERT = transformers.BertConfig(
    vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32
)


def on_gpu(job: Job, **arguments: Any) -> Settings:
    """Return the settings of a job as they are on a GPU before the model is loaded."""
    argv = job_argv(**{"attention": "auto", "padding": "longest", **arguments})
    settings = resolve_settings(argv, job.environment, Events(enabled=False))
    return replace(settings, device_kind="cuda", attention=settings.arguments.attention)


def loaded(attention: str) -> Any:
    return transformers.BertForSequenceClassification._from_config(BERT, attn_implementation=attention)


@pytest.mark.parametrize(
    ("in_use", "arguments", "attention", "fields"),
    [
        ("sdpa", {}, "sdpa", ["attention"]),
        ("eager", {}, "eager", ["attention"]),
        ("sdpa", {"precision": "auto", "dropout": "auto"}, "sdpa", ["attention"]),
        ("sdpa", {"sharding": "fsdp2"}, "sdpa", []),
        ("sdpa", {"padding": "none"}, "auto", []),
        ("eager", {"attention": "eager"}, "eager", []),
    ],
)
def test_only_an_attention_that_is_auto_is_tried(
    job: Job, in_use: str, arguments: dict[str, Any], attention: str, fields: list[str]
) -> None:
    model, events = loaded(in_use), Events(enabled=False)
    settings = with_attention_in_use(on_gpu(job, **arguments), model)
    assert settings.attention == attention
    assert open_fields(settings, model, ThreadControl(events, None)) == fields


def test_the_attention_in_use_stays_when_others_are_looked_up() -> None:
    model = loaded("sdpa")
    assert can_use(model, "eager")
    assert not can_use(model, "flash_attention_2"), "the package flash_attn is not installed"
    assert model.config._attn_implementation == "sdpa"


def test_the_memory_of_scores() -> None:
    """BERT base with 32 rows of 64 tokens: 12 layers, 12 heads, 4096 pairs of tokens, and 16 bytes for each."""
    base = transformers.BertConfig()
    assert score_bytes(base, 32, 64) == 12 * 12 * 32 * 4096 * 16 == 301_989_888
    # Other names of the same fields, and a configuration without them.
    assert score_bytes(transformers.GPT2Config(), 32, 64) == 301_989_888
    assert score_bytes(transformers.PretrainedConfig(), 32, 64) == float("inf")
