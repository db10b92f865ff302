"""Blockwise attention gives the result and the gradients of plain attention, with any mask, and drops weights.

Models look it up in the registry of transformers, and evaluate as with `eager`.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from torch.nn import functional
from transformers import AutoConfig

from training.job.compilation import blockwise
from training.job.compilation.blockwise import LEVELS, Blockwise
from training.job.weights.pretrained import set_attention

SHAPES = [(3, 4, 37, 16), (2, 3, 600, 8), (1, 2, 1, 4)]
KINDS = ("none", "padding", "causal", "added", "for each head")
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 0.03}


def heads_of(flat: list[Any], heads: int) -> list[Any]:
    """Split rows x tokens x width as models do: the result is not contiguous."""
    return [each.view(*each.shape[:2], heads, -1).transpose(1, 2) for each in flat]


def mask_of(kind: str, batch: int, heads: int, length: int) -> Any:
    seen = torch.ones(batch, 1, length, length, dtype=torch.bool)
    if kind == "padding":
        seen[0, :, :, 1 + length // 2 :] = False
    if kind == "causal":
        return seen.tril()
    if kind == "added":
        return torch.randn(batch, 1, length, length)
    if kind == "for each head":
        return torch.rand(batch, heads, length, length) + torch.eye(length) > 0.5
    return seen


def results(attention: Any, flat: list[Any], heads: int, gradient: Any) -> list[Any]:
    """Return the attention and the gradients of its inputs."""
    leaves = [each.clone().requires_grad_() for each in flat]
    output = attention(*heads_of(leaves, heads))
    output.backward(gradient.to(output.dtype))
    return [output.detach(), *(each.grad for each in leaves)]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("shape", "block_bytes"), [*((shape, 10_000) for shape in SHAPES), (SHAPES[1], 3 << 20)])
def test_equals_plain_attention(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, kind: str, shape: tuple[int, ...], block_bytes: int
) -> None:
    monkeypatch.setattr(blockwise, "BLOCK_BYTES", block_bytes)
    torch.manual_seed(1)
    batch, heads, length, width = shape
    flat = [torch.randn(batch, length, heads * width).to(dtype) for _ in range(3)]
    gradient = torch.randn(batch, length, heads, width)
    mask = mask_of(kind, batch, heads, length)

    def plain(query: Any, key: Any, value: Any) -> Any:
        numbers = mask if mask.dtype == torch.bool else mask.to(query.dtype)
        return functional.scaled_dot_product_attention(query, key, value, numbers, scale=0.3).transpose(1, 2)

    def without_mask(query: Any, key: Any, value: Any) -> Any:
        is_causal = kind == "causal"
        given = None if kind in ("none", "causal") else mask
        return Blockwise.apply(query, key, value, given, 0.3, 0, is_causal)

    def with_mask(query: Any, key: Any, value: Any) -> Any:
        return Blockwise.apply(query, key, value, mask, 0.3, 0, False)

    exact = results(plain, [each.double() for each in flat], heads, gradient)
    for attention in (without_mask, with_mask):
        for ours, expected in zip(results(attention, flat, heads, gradient), exact, strict=True):
            assert ours.dtype == dtype
            assert float((ours.double() - expected).abs().max()) <= TOLERANCE[dtype] * float(expected.abs().max())


def test_gradients_with_dropout_are_those_of_the_drawn_weights() -> None:
    """Numerical derivatives, with the same draws in every call."""
    torch.manual_seed(2)
    inputs = [torch.randn(2, 2, 5, 3, dtype=torch.float64, requires_grad=True) for _ in range(3)]

    def drawn(*tensors: Any) -> Any:
        torch.manual_seed(3)
        return Blockwise.apply(*tensors, None, 0.5, LEVELS // 3, False)

    assert torch.autograd.gradcheck(drawn, inputs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_rate_of_dropout(dtype: torch.dtype) -> None:
    """With equal scores and values of one hot number for each key, the output is the weights themselves."""
    torch.manual_seed(4)
    length = 64
    zeros, ones = torch.zeros(8, 4, length, length, dtype=dtype), torch.eye(length, dtype=dtype).expand(8, 4, -1, -1)
    query = zeros.clone().requires_grad_()
    weights = Blockwise.apply(query, zeros, ones, None, 1.0, LEVELS // 4, False).detach().float()
    dropped = float((weights == 0).float().mean())
    # Five standard deviations of the draws.
    assert abs(dropped - 0.25) < 5 * (0.25 * 0.75 / weights.numel()) ** 0.5
    assert weights.max() == pytest.approx(4 / 3 / length, rel=0.01)


def test_blocks_leave_out_keys_that_no_query_sees_and_are_about_equally_large() -> None:
    # At 1,024 tokens in four parts, a quarter, a half, three quarters and all of the keys.
    query = torch.empty(1, 1, 1024, 8)
    assert [block[3] for block in blockwise._blocks(query, query, True)] == [256, 512, 768, 1024]
    # Ten heads would fit, but ten and two use the cores worse than six and six.
    query = torch.empty(1, 12, 384, 8, dtype=torch.bfloat16)
    assert [block[1] for block in blockwise._blocks(query, query, False)] == [slice(0, 6), slice(6, 12)]


def test_weights_are_dropped_independently() -> None:
    """Four weights share one draw of 64 bits."""
    torch.manual_seed(2)
    kept = blockwise._draw_factors(torch.empty(4_000_000), LEVELS // 2).double()
    for distance in (1, 2, 3, 4, 8):
        correlation = torch.corrcoef(torch.stack([kept[:-distance], kept[distance:]]))[0, 1]
        assert abs(float(correlation)) < 5 / 4_000_000**0.5
    for lane in range(4):
        assert float(kept[lane::4].mean()) == pytest.approx(0.5, abs=0.0025)


SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
MODELS = {
    "albert": {**SMALL, **NO_DROPOUT, "embedding_size": 8},
    "bert": {**SMALL, **NO_DROPOUT},
    "camembert": {**SMALL, **NO_DROPOUT},
    "distilbert": {"dim": 16, "n_layers": 2, "n_heads": 4, "hidden_dim": 32, "dropout": 0.0, "attention_dropout": 0.0},
    "electra": {**SMALL, **NO_DROPOUT, "embedding_size": 8},
    "gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 4, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0},
    # Two heads share the keys and values of one.
    "llama": {**SMALL, "num_key_value_heads": 2},
    "mistral": {**SMALL, "num_key_value_heads": 2, "sliding_window": 4},
    "qwen2": {**SMALL, "num_key_value_heads": 2},
    "qwen3": {**SMALL, "num_key_value_heads": 2, "head_dim": 4},
    "roberta": {**SMALL, **NO_DROPOUT},
    "xlm-roberta": {**SMALL, **NO_DROPOUT},
}


def new_model(model_type: str) -> Any:
    torch.manual_seed(1)
    ids = {"vocab_size": 40, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    config = AutoConfig.for_model(model_type, **MODELS[model_type], **ids)
    return transformers.AutoModelForSequenceClassification.from_config(config, attn_implementation="eager")


def batch() -> dict[str, Any]:
    torch.manual_seed(2)
    ids = torch.randint(3, 40, (3, 9))
    ids[0, 4:] = ids[1, 7:] = 1
    return {"input_ids": ids, "attention_mask": (ids != 1).long(), "labels": torch.tensor([0, 1, 1])}


@pytest.mark.parametrize("model_type", blockwise.MODEL_TYPES)
def test_models_train_and_evaluate_as_with_eager_attention(model_type: str) -> None:
    blockwise.register()
    model = new_model(model_type)
    gradients: list[dict[str, Any]] = []
    logits: list[list[Any]] = []
    for attention in ("eager", blockwise.NAME):
        assert set_attention(model.eval(), attention)
        logits.append([])
        for is_bf16 in (False, True):
            with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=is_bf16):
                logits[-1].append(model(**batch()).logits)
        model.train().zero_grad()
        model(**batch()).loss.backward()
        gradients.append({name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    for name, expected in gradients[0].items():
        assert torch.allclose(gradients[1][name], expected, rtol=1e-3, atol=1e-6), name
    # Evaluations are equal to the bit.
    assert all(torch.equal(*pair) for pair in zip(*logits, strict=True))


def test_arguments_that_change_the_scores_are_refused() -> None:
    tensors = [torch.randn(1, 2, 3, 4) for _ in range(3)]
    with pytest.raises(ValueError, match="attention blockwise does not support softcap"):
        blockwise.attend(SimpleNamespace(is_causal=False), *tensors, None, softcap=1.0)
