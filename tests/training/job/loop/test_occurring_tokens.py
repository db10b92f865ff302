"""Training with the embeddings of the tokens that occur gives the same weights, and what is saved has all of them."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    T5Config,
    T5ForSequenceClassification,
)

from tests.support.job.job_process import example_rows
from training.job.loop.prepared_model import OccurringTokens, can_leave_out, whole_vocabulary

NAME = "bert.embeddings.word_embeddings.weight"
OCCURRING = torch.arange(0, 60, 3)


def plain_model() -> Any:
    sizes = {"vocab_size": 60, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    torch.manual_seed(1)
    return BertForSequenceClassification(BertConfig(**sizes, intermediate_size=32, pad_token_id=0))


def with_occurring_tokens(model: Any) -> Any:
    own = deepcopy(model)
    own.set_input_embeddings(OccurringTokens(own.get_input_embeddings(), OCCURRING))
    return own


def test_a_model_is_saved_and_loaded_with_its_whole_vocabulary(tmp_path: Path) -> None:
    plain = plain_model().eval()
    own = with_occurring_tokens(plain).eval()
    ids = OCCURRING[None, 1:8]
    assert torch.equal(own(input_ids=ids).logits, plain(input_ids=ids).logits)
    with torch.no_grad():
        # As decay 0.5 does to all rows, and a gradient to those of tokens that occur.
        own.get_input_embeddings().weight.mul_(0.5)
        own.get_input_embeddings().weight[:-1] += 1
    with whole_vocabulary(own):
        own.save_pretrained(tmp_path)
    saved, initial = load_file(tmp_path / "model.safetensors"), plain_model().state_dict()
    assert list(saved) == sorted(initial)
    occurs = torch.isin(torch.arange(60), OCCURRING)[:, None]
    assert torch.equal(saved[NAME], initial[NAME] * 0.5 + occurs)
    parameter = own.get_input_embeddings().weight
    with whole_vocabulary(own):
        own.load_state_dict(initial)
    assert own.get_input_embeddings().weight is parameter, "the optimizer would train another tensor"
    assert torch.equal(parameter[:-1], initial[NAME][OCCURRING])


def test_embeddings_with_another_use_are_trained_whole() -> None:
    assert can_leave_out(plain_model())
    assert not can_leave_out(GPT2LMHeadModel(GPT2Config(vocab_size=60, n_embd=16, n_layer=1, n_head=2)))
    small = {"vocab_size": 60, "d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    assert not can_leave_out(T5ForSequenceClassification(T5Config(**small)))


def test_a_token_that_does_not_occur_is_an_error() -> None:
    with pytest.raises(IndexError):
        with_occurring_tokens(plain_model())(input_ids=torch.tensor([[1]]))


def test_a_job_trains_the_same_weights(new_job: Any, tiny_model: Path) -> None:
    settings = {"max_steps": 4, "learning_rate": 0.01, "weight_decay": 0.5}
    plain = new_job("plain").run(**settings, optimizer="adamw")
    job = new_job("own")
    job.environment["SM_CHECKPOINT_DIR"] = str(job.folder / "checkpoints")
    own = job.run(**settings, optimizer="auto", save_strategy="steps", save_steps=2)
    initial, weights, expected = (
        load_file(folder / "model.safetensors") for folder in (tiny_model, own.folder / "model", plain.folder / "model")
    )
    for name, values in expected.items():
        torch.testing.assert_close(weights[name], values, atol=1e-4, rtol=1e-4)
    occurring = sorted({0, *(token for row in example_rows(50)[0] for token in row)})
    others = torch.ones(len(initial[NAME]), dtype=torch.bool)
    others[occurring] = False
    assert others.any()
    # Four steps with 1, 3/4, 1/2 and 1/4 of the rate 0.01.
    factor = (1 - 0.005) * (1 - 0.00375) * (1 - 0.0025) * (1 - 0.00125)
    torch.testing.assert_close(weights[NAME][others], initial[NAME][others] * factor)
    checkpoint = job.folder / "checkpoints/checkpoint-4"
    assert torch.equal(load_file(checkpoint / "model.safetensors")[NAME], weights[NAME])
    states = torch.load(checkpoint / "optimizer.pt")["state"].values()
    assert (len(occurring) + 1, initial[NAME].shape[1]) in [tuple(each["exp_avg"].shape) for each in states]
    assert own.events("start")[0]["model"] == plain.events("start")[0]["model"]
