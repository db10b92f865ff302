"""On a GPU, a trial tries only what the model has and what needs little memory. `make accept-gpu` covers the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import transformers
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from reporting.events import Events
from settings.job_settings import Settings, resolve_settings
from tests.support.job.arguments import job_argv
from tests.support.job.job_process import VOCABULARY, Job
from tuning import candidates
from tuning.attention_candidates import can_use, gpu_candidates, score_bytes
from tuning.candidates import try_candidates
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
    ("in_use", "arguments", "attention"),
    [
        ("sdpa", {"sharding": "fsdp2"}, "sdpa"),
        ("sdpa", {"padding": "none"}, "auto"),
        ("eager", {"attention": "eager"}, "eager"),
    ],
)
def test_nothing_is_tried_where_no_choice_is_open(
    job: Job, in_use: str, arguments: dict[str, Any], attention: str
) -> None:
    model, events = loaded(in_use), Events(enabled=False)
    settings = with_attention_in_use(on_gpu(job, **arguments), model)
    assert settings.attention == attention
    assert open_fields(settings, model, ThreadControl(events, None)) == []


@pytest.mark.parametrize(
    ("in_use", "arguments", "candidates"),
    [
        # The scores of 8 rows of 12 tokens, 2 layers and 2 heads need 73,728 bytes.
        ("sdpa", {}, ["sdpa", "eager"]),
        ("eager", {}, ["eager", "sdpa"]),
        ("sdpa", {"batch_size": 16}, ["sdpa"]),
        ("sdpa", {"calibration_batch_sizes": "8,16"}, ["sdpa"]),
    ],
)
def test_eager_attention_is_tried_where_its_scores_are_small(
    job: Job, in_use: str, arguments: dict[str, Any], candidates: list[str]
) -> None:
    model = loaded(in_use)
    settings = with_attention_in_use(on_gpu(job, **{"batch_size": 8, **arguments}), model)
    assert gpu_candidates(settings, model, 73_728 * 50, (9, 0)) == candidates


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


def test_an_attention_that_fails_is_left_out_and_named(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_kernel(*tensors: Any, **options: Any) -> Any:
        raise RuntimeError("no kernel for this shape\nsecond line")

    settings = resolve_settings(job_argv(attention="auto"), job.environment, Events(enabled=False))
    model, control = loaded("eager"), ThreadControl(Events(enabled=False), None)
    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, "sdpa", no_kernel)
    monkeypatch.setattr(candidates, "BUDGET_SECONDS", 120.0)
    decision = try_candidates(settings, model, ["attention"], control)
    assert decision.values == {"attention": "eager"}
    assert decision.remark == "the trial of sdpa failed: RuntimeError: no kernel for this shape"
    assert decision.samples_per_second.keys() == {"eager"}
    # Another group would see the same.
    assert decision.is_complete
    assert model.config._attn_implementation == "eager"
    assert all(parameter.grad is None for parameter in model.parameters())
