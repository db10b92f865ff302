"""Blockwise attention gives the result and the gradients of plain attention, with any mask, and drops weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional

from attention import blocks
from attention.blockwise import Options
from attention.operation import _Blockwise
from compilation.dropout import LEVELS

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
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("block_bytes", [10_000, 3 << 20])
def test_equals_plain_attention(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, kind: str, shape: tuple[int, ...], block_bytes: int
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", block_bytes)
    torch.manual_seed(1)
    batch, heads, length, width = shape
    flat = [torch.randn(batch, length, heads * width).to(dtype) for _ in range(3)]
    gradient = torch.randn(batch, length, heads, width)
    mask = mask_of(kind, batch, heads, length)

    def plain(query: Any, key: Any, value: Any) -> Any:
        numbers = mask if mask.dtype == torch.bool else mask.to(query.dtype)
        return functional.scaled_dot_product_attention(query, key, value, numbers, scale=0.3).transpose(1, 2)

    def blockwise(query: Any, key: Any, value: Any) -> Any:
        is_causal = kind == "causal"
        given = None if kind in ("none", "causal") else mask
        return _Blockwise.apply(query, key, value, given, Options(0.3, 0, is_causal))

    def blockwise_with_mask(query: Any, key: Any, value: Any) -> Any:
        return _Blockwise.apply(query, key, value, mask, Options(0.3, 0, False))

    exact = results(plain, [each.double() for each in flat], heads, gradient)
    for attention in (blockwise, blockwise_with_mask):
        for ours, expected in zip(results(attention, flat, heads, gradient), exact, strict=True):
            assert ours.dtype == dtype
            assert float((ours.double() - expected).abs().max()) <= TOLERANCE[dtype] * float(expected.abs().max())


def test_gradients_with_dropout_are_those_of_the_drawn_weights() -> None:
    """Numerical derivatives, with the same draws in every call."""
    torch.manual_seed(2)
    inputs = [torch.randn(2, 2, 5, 3, dtype=torch.float64, requires_grad=True) for _ in range(3)]

    def drawn(*tensors: Any) -> Any:
        torch.manual_seed(3)
        return _Blockwise.apply(*tensors, None, Options(0.5, LEVELS // 3, False))

    assert torch.autograd.gradcheck(drawn, inputs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_rate_of_dropout(dtype: torch.dtype) -> None:
    """With equal scores and values of one hot number for each key, the output is the weights themselves."""
    torch.manual_seed(4)
    length = 64
    zeros, ones = torch.zeros(8, 4, length, length, dtype=dtype), torch.eye(length, dtype=dtype).expand(8, 4, -1, -1)
    query = zeros.clone().requires_grad_()
    weights = _Blockwise.apply(query, zeros, ones, None, Options(1.0, LEVELS // 4, False)).detach().float()
    dropped = float((weights == 0).float().mean())
    # Five standard deviations of the draws.
    assert abs(dropped - 0.25) < 5 * (0.25 * 0.75 / weights.numel()) ** 0.5
    assert weights.max() == pytest.approx(4 / 3 / length, rel=0.01)


def test_everything_is_dropped_at_a_rate_of_1() -> None:
    inputs = [torch.randn(1, 1, 3, 4, requires_grad=True) for _ in range(3)]
    output = _Blockwise.apply(*inputs, None, Options(1.0, LEVELS, False))
    output.sum().backward()
    assert output.abs().sum() == 0
    assert all(each.grad is not None and each.grad.abs().sum() == 0 for each in inputs)
