"""Attention for training on a CPU, block by block, as an implementation that transformers can look up.

Softmax, mask and dropout of attention read and write one number for each pair of tokens. On a CPU, that takes longer
than the matrix products: one layer of a batch of long rows has hundreds of megabytes of them. Here, all operations on a
block follow each other while its numbers are in the caches, as in FlashAttention (Dao et al. 2022,
https://arxiv.org/abs/2205.14135), and numbers stay in the precision of the matrix products; softmax computes in 32 bits
inside. Unlike in FlashAttention, the weights are kept for the backward pass: to compute them again would take longer.

Without dropout, the result differs from other implementations only by rounding. With dropout, its rate is rounded.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

NAME = "blockwise"
"""Name of the implementation in the registry of transformers."""
MODEL_TYPES = (
    *("albert", "bert", "camembert", "distilbert", "electra", "gpt2", "llama", "mistral", "qwen2", "qwen3"),
    *("roberta", "xlm-roberta"),
)
"""Models for which `auto` selects it, with transformers 5. Tests compare their gradients with eager's."""
UNSUPPORTED = ("head_mask", "softcap", "s_aux", "position_bias")
"""Arguments with which some models change the scores in ways that this implementation does not."""

BLOCK_BYTES = 3 << 20
"""Size of a block's scores: about what the second-level caches of two cores hold."""
QUERIES = 256
"""Queries in a block of causal attention, which leaves out the keys after the last of them."""
KEY_MULTIPLES = {2: 32}
"""Size of an element in bytes -> multiple to which the number of keys is padded. A vector register holds 32 elements of
16 bits, and PyTorch's softmax takes four times as long for 24 of them as for 32. Other elements need no padding."""
LEVELS = 1 << 16
"""The dropout rate is rounded to a multiple of 1 / LEVELS."""
ONE_IN_BF16 = 0x3F80
"""Bits of 1.0 in bf16."""

Block = tuple[slice, slice, slice, int]
"""Rows of the batch, their heads, their queries, and the number of keys that these see, with padding."""


def register(compiles: bool = False) -> bool:
    """Add the implementation to the registry of transformers. Return False if transformers has none.

    A compiler leaves it out of its programs.
    """
    try:
        from transformers import AttentionInterface, AttentionMaskInterface
        from transformers.masking_utils import sdpa_mask
    except ImportError:
        return False
    # `disable` imports the compiler, which takes a second.
    AttentionInterface.register(NAME, torch.compiler.disable(attend) if compiles else attend)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    return True


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    **more: object,
) -> tuple[Tensor, None]:
    """Return the attention, batch x queries x heads x width, and no weights.

    Arguments are as in transformers' implementations: `query`, `key` and `value` are batch x heads x tokens x width.
    Keys and values may have fewer heads, each for several heads of the queries. Raises `ValueError` for an argument
    that is not supported.
    """
    for name in UNSUPPORTED:
        if more.get(name) is not None:
            raise ValueError(f"attention {NAME} does not support {name}")
    if torch.is_autocast_enabled("cpu"):
        query, key, value = (each.to(torch.get_autocast_dtype("cpu")) for each in (query, key, value))
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = (each.repeat_interleave(groups, dim=1) for each in (key, value))
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    is_causal = getattr(module, "is_causal", False) if is_causal is None else is_causal
    # As in transformers' `sdpa`: a model that sees only earlier tokens passes a mask, or none if all tokens are real.
    causal = bool(is_causal) and attention_mask is None and query.shape[2] > 1
    if not torch.is_grad_enabled() and not dropout:
        return _eager(query, key, value, attention_mask, scaling, causal), None
    return Blockwise.apply(query, key, value, attention_mask, scaling, round(dropout * LEVELS), causal), None


def _eager(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float, causal: bool) -> Tensor:
    """Compute as transformers' `eager` does, so that predictions give the same numbers. For evaluations."""
    scores = torch.matmul(query, key.transpose(2, 3)) * scaling
    if causal:
        mask = torch.ones(scores.shape[2:], dtype=torch.bool).tril()
    if mask is not None:
        scores = scores + (_as_numbers(mask, torch.float32) if mask.dtype == torch.bool else mask)
    weights = torch.softmax(scores, -1, dtype=torch.float32).to(query.dtype)
    return torch.matmul(weights, value).transpose(1, 2).contiguous()


class Blockwise(torch.autograd.Function):  # type: ignore[misc]
    """The attention and its gradients.

    The mask is batch x (1 or heads) x queries x keys: True where a query sees a key, or numbers that are added to the
    scores. A weight is dropped with probability `dropped` / LEVELS. With `is_causal`, query i sees the keys 0 to i, and
    there is no mask.
    """

    @staticmethod
    def forward(
        context: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor,
        scaling: float,
        dropped: int,
        is_causal: bool,
    ) -> Tensor:
        """Return the attention, batch x queries x heads x width."""
        output = query.new_empty(query.shape[0], query.shape[2], query.shape[1], value.shape[3]).transpose(1, 2)
        added = _added_mask(mask, query, key, is_causal)
        kept = []
        for rows, heads, queries, keys in _blocks(query, key, is_causal):
            left, right = _part(query, rows, heads, queries), _part(key, rows, heads, slice(keys), keys)
            scores = _product(left, right.transpose(1, 2), scaling)
            if added is not None:
                of_heads = heads if added.shape[1] > 1 else slice(None)
                by_row = scores.view(rows.stop - rows.start, -1, *scores.shape[1:])
                by_row.add_(added[rows, of_heads, queries, :keys])
            weights = torch.softmax(scores, -1, out=scores)
            factors = _draw_factors(weights, dropped)
            kept += [weights, factors]
            values = _part(value, rows, heads, slice(keys), keys)
            result = _product(_dropped(weights, factors), values, _scale_of(dropped))
            of_output = output[rows, heads, queries]
            of_output.copy_(result.view_as(of_output))
        context.save_for_backward(query, key, value, *kept)
        context.options = scaling, dropped, is_causal
        return output.transpose(1, 2)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of `query`, `key` and `value`."""
        query, key, value, *kept = context.saved_tensors
        scaling, dropped, is_causal = context.options
        gradient = gradient.to(query.dtype).transpose(1, 2)
        grad_query, grad_key, grad_value = torch.empty_like(query), torch.zeros_like(key), torch.zeros_like(value)
        pairs = zip(kept[::2], kept[1::2])
        for (rows, heads, queries, keys), (weights, factors) in zip(_blocks(query, key, is_causal), pairs):
            seen = rows, heads, slice(keys)
            of_output = _part(gradient, rows, heads, queries)
            grad_weights = _product(of_output, _part(value, *seen, keys).transpose(1, 2), _scale_of(dropped))
            _add(grad_value[seen], _product(_dropped(weights, factors).transpose(1, 2), of_output, _scale_of(dropped)))
            grad_weights = _dropped(grad_weights, factors)
            grad_scores = torch._softmax_backward_data(grad_weights, weights, -1, weights.dtype)
            of_query = grad_query[rows, heads, queries]
            of_query.copy_(_product(grad_scores, _part(key, *seen, keys), scaling).view_as(of_query))
            _add(grad_key[seen], _product(grad_scores.transpose(1, 2), _part(query, rows, heads, queries), scaling))
        return grad_query, grad_key, grad_value, None, None, None, None


def _blocks(query: Tensor, key: Tensor, is_causal: bool) -> Iterator[Block]:
    """Yield blocks that cover each pair of a query and a key: all heads of several rows, or some heads of one row."""
    batch, heads, count, _ = query.shape
    number_bytes = query.element_size()
    keys = _padded_count(key.shape[2], number_bytes)
    queries = min(count, QUERIES) if is_causal else count
    fitting = max(1, BLOCK_BYTES // (queries * keys * number_bytes))
    # Equally large parts of the heads, or nearly so.
    heads_at_once = -(-heads // -(-heads // fitting))
    for of_rows in _parts(batch, max(1, fitting // heads)):
        for of_heads in _parts(heads, heads_at_once):
            for of_queries in _parts(count, queries):
                seen = min(_padded_count(of_queries.stop, number_bytes), keys) if is_causal else keys
                yield of_rows, of_heads, of_queries, seen


def _parts(count: int, size: int) -> Iterator[slice]:
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def _padded_count(keys: int, number_bytes: int) -> int:
    multiple = KEY_MULTIPLES.get(number_bytes, 1)
    return (keys + multiple - 1) // multiple * multiple


def _part(tensor: Tensor, rows: slice, heads: slice, tokens: slice, length: int = 0) -> Tensor:
    """Return a block's (rows x heads) x tokens x width, with zeros behind the tokens up to `length`."""
    part = tensor[rows, heads, tokens].flatten(0, 1)
    return functional.pad(part, (0, 0, 0, length - part.shape[1])) if length > part.shape[1] else part


def _add(part: Tensor, values: Tensor) -> None:
    """Add (rows x heads) x tokens x width to a part of a tensor, without padding tokens."""
    part.add_(values.unflatten(0, part.shape[:2])[:, :, : part.shape[2]])


def _added_mask(mask: Tensor | None, query: Tensor, key: Tensor, is_causal: bool) -> Tensor | None:
    """Return the mask as numbers to add to the scores, with padding keys masked; None for no mask."""
    queries, keys = query.shape[2], key.shape[2]
    padding = _padded_count(keys, key.element_size()) - keys
    if is_causal:
        mask = torch.ones(1, 1, queries, keys, dtype=torch.bool).tril()
    elif mask is None and padding:
        mask = torch.ones(1, 1, 1, keys, dtype=torch.bool)
    if mask is None:
        return None
    added = functional.pad(_as_numbers(mask, query.dtype), (0, padding), value=torch.finfo(query.dtype).min)
    return added.expand(len(query), -1, queries, -1)


def _as_numbers(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a mask as numbers to add to scores of this type, none of them infinite."""
    lowest = torch.finfo(dtype).min
    if mask.dtype == torch.bool:
        return torch.zeros(mask.shape, dtype=dtype).masked_fill_(~mask, lowest)
    return mask.to(dtype).clamp(min=lowest)


def _draw_factors(weights: Tensor, dropped: int) -> Tensor | None:
    """Return a factor for each weight in bf16: 0 with probability `dropped` / LEVELS, else 1. None without dropout.

    Each draw gives 64 bits for four weights. All operations have 16 bits per weight, so they fill whole vector
    registers: with masks of one byte, they took three times as long.
    """
    if not dropped:
        return None
    count = weights.numel()
    words = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None).view(torch.int16)[:count]
    return words.ge_(dropped - LEVELS // 2).mul_(ONE_IN_BF16).view(torch.bfloat16).view(weights.shape)


def _dropped(values: Tensor, factors: Tensor | None) -> Tensor:
    # A product of two precisions would be computed element by element.
    return values if factors is None else values * factors.to(values.dtype)


def _scale_of(dropped: int) -> float:
    """Return the factor of the weights that are kept."""
    return LEVELS / (LEVELS - dropped) if dropped < LEVELS else 0.0


def _product(left: Tensor, right: Tensor, factor: float) -> Tensor:
    if factor == 1:
        return torch.bmm(left, right)
    return torch.baddbmm(left.new_empty(1, 1, 1), left, right, beta=0, alpha=factor)
