"""Texts in a padded batch equal the texts of each prompt alone, for decoders and encoder-decoders."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from training.job.loop.text_generation import generate

PROMPTS = [[5, 6, 7, 8, 9], [10], [11, 12, 13]]
PAD = 0


def gpt2() -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    ends = {"bos_token_id": 1, "eos_token_id": 1}
    return GPT2LMHeadModel(GPT2Config(vocab_size=40, n_positions=32, n_embd=16, n_layer=2, n_head=2, **ends))


def bart() -> Any:
    from transformers import BartConfig, BartForConditionalGeneration

    sizes = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in SIZES.items()}
    return BartForConditionalGeneration(BartConfig(vocab_size=40, d_model=16, max_position_embeddings=32, **sizes))


SIZES = {"layers": 1, "attention_heads": 2, "ffn_dim": 32}


@pytest.mark.parametrize("make", [gpt2, bart])
@pytest.mark.parametrize("beams", [1, 3])
def test_a_batch_generates_what_each_prompt_generates_alone(make: Any, beams: int) -> None:
    torch.manual_seed(3)
    model = make().eval()
    with torch.no_grad():
        for weights in model.parameters():
            if weights.dim() > 1:
                weights.normal_(0.0, 0.3)  # large enough for different texts
    settings = {"max_new_tokens": 6, "num_beams": beams}
    together = generate(model, PROMPTS, PAD, settings, "cpu")
    alone = [generate(model, [prompt], PAD, settings, "cpu")[0] for prompt in PROMPTS]
    assert [row[: len(other)] for row, other in zip(together, alone, strict=True)] == alone
    assert all(set(row[len(other) :]) <= {PAD} for row, other in zip(together, alone, strict=True))
    assert len({tuple(row) for row in alone}) == 3
