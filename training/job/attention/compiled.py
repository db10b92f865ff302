"""Blockwise attention as one operation of which a compiler knows the shapes and the derivative, but not the content."""

from typing import Any, Optional, Tuple

import torch
from torch import Tensor

from attention import blockwise
from attention.blocks import score_count
from attention.blockwise import Options

Three = Tuple[Tensor, Tensor, Tensor]
# The names of an operation in the registry of PyTorch.
FORWARD, BACKWARD = "trainfare::blockwise_attention", "trainfare::blockwise_attention_backward"


def attend(query: Any, key: Any, value: Any, mask: Optional[Any], options: Options) -> Any:
    """Return the attention, batch x queries x heads x width. `register` has to be called before."""
    return torch.ops.trainfare.blockwise_attention(query, key, value, mask, *options)[0]


def register() -> None:
    """Register the operation and its derivative with PyTorch, once. Needs torch 2.4."""
    if hasattr(torch.ops.trainfare, "blockwise_attention"):
        return
    forward = torch.library.custom_op(FORWARD, _forward, mutates_args=())
    forward.register_fake(_forward_shapes)
    forward.register_autograd(_differentiate, setup_context=_keep_for_backward)
    torch.library.custom_op(BACKWARD, _backward, mutates_args=()).register_fake(_backward_shapes)


# PyTorch reads the types of these arguments.


def _forward(
    query: Tensor, key: Tensor, value: Tensor, mask: Optional[Tensor], scaling: float, dropped: int, is_causal: bool
) -> Three:
    options = Options(scaling, dropped, is_causal)
    output, weights, factors = blockwise.forward(query, key, value, mask, options, keeps=True)
    return output, weights, factors


def _forward_shapes(
    query: Tensor, key: Tensor, value: Tensor, mask: Any, scaling: float, dropped: int, is_causal: bool
) -> Three:
    batch, heads, length, _ = query.shape
    count = score_count(blockwise.sizes_of(query, key, Options(scaling, dropped, is_causal)))
    factors = query.new_empty(count if dropped else 0, dtype=torch.bfloat16)
    return query.new_empty(batch, length, heads, value.shape[3]), query.new_empty(count), factors


def _backward(
    gradient: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    weights: Tensor,
    factors: Tensor,
    scaling: float,
    dropped: int,
    is_causal: bool,
) -> Three:
    options = Options(scaling, dropped, is_causal)
    results = blockwise.backward(gradient, query, key, value, weights, factors, options)
    grad_query, grad_key, grad_value = (each.contiguous() for each in results)
    return grad_query, grad_key, grad_value


def _backward_shapes(gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, *_: Any) -> Three:
    return query.new_empty(query.shape), key.new_empty(key.shape), value.new_empty(value.shape)


def _keep_for_backward(ctx: Any, inputs: Any, output: Any) -> None:
    query, key, value, _, *options = inputs
    ctx.save_for_backward(query, key, value, *output[1:])
    ctx.options = options


def _differentiate(ctx: Any, gradient: Any, *_: Any) -> Tuple[Any, ...]:
    results = torch.ops.trainfare.blockwise_attention_backward(gradient, *ctx.saved_tensors, *ctx.options)
    return (*results, None, None, None, None)
