"""Attention for training on a CPU, block by block.

Softmax, mask and dropout of attention read and write one number for each pair of tokens. On a CPU, that takes longer
than the matrix products: one layer of a batch of long rows has hundreds of megabytes of them. Here, all operations on a
block follow each other while its numbers are in the caches, as in FlashAttention (Dao et al. 2022,
https://arxiv.org/abs/2205.14135), and numbers stay in the precision of the matrix products; softmax computes in 32 bits
inside. Unlike in FlashAttention, the weights are kept for the backward pass: to compute them again would take longer.

Without dropout, the result is that of any other implementation up to rounding. The rate of dropout is rounded, see
`compilation/dropout.py`.
"""

from typing import Any, NamedTuple, Optional, Tuple

import torch

from attention.blocks import Block, Sizes, blocks, padded_count, score_count
from compilation.dropout import draw_factors, scale_of


class Options(NamedTuple):
    """Constants of one attention."""

    scaling: float
    """Factor of the scores."""
    dropped: int
    """A weight is dropped with probability `dropped` / 65536."""
    is_causal: bool
    """Query i sees the keys 0 to i. Needs as many keys as queries, and no mask."""


def forward(query: Any, key: Any, value: Any, mask: Optional[Any], options: Options, keeps: bool) -> Tuple[Any, ...]:
    """Return the attention, batch x queries x heads x width, and what `backward` needs: weights and dropout's factors.

    `query`, `key` and `value` are batch x heads x tokens x width. `mask` is batch x (1 or heads) x queries x keys: True
    where a query sees a key, or numbers that are added to the scores. With `keeps` False, the last two are empty.
    """
    batch, heads, length, _ = query.shape
    sizes = sizes_of(query, key, options)
    added = _added_mask(mask, sizes, int(key.shape[2]), query)
    query, key, value = _flat(query, length), _flat(key, sizes.keys), _flat(value, sizes.keys)
    count = score_count(sizes) if keeps else 0
    weights = query.new_empty(count)
    factors_of_all = query.new_empty(count if options.dropped else 0, dtype=torch.bfloat16)
    output = query.new_empty(batch * heads, length, value.shape[2])
    for block in blocks(sizes, query.element_size()):
        keys = key[block.flat, : block.key_end].transpose(1, 2)
        scores = weights[block.scores].view(block.shape) if keeps else query.new_empty(block.shape)
        torch.baddbmm(scores, query[block.flat, block.queries], keys, beta=0, alpha=options.scaling, out=scores)
        if added is not None:
            _add_mask(scores, added, block)
        torch.softmax(scores, -1, out=scores)
        kept = scores
        if options.dropped:
            factors = draw_factors(scores.numel(), options.dropped)
            if keeps:
                factors_of_all[block.scores] = factors
            kept = scores * factors.view(block.shape).to(scores.dtype)
        values = value[block.flat, : block.key_end]
        output[block.flat, block.queries] = _product(kept, values, scale_of(options.dropped))
    return output.view(batch, heads, length, -1).transpose(1, 2).contiguous(), weights, factors_of_all


def backward(
    gradient: Any, query: Any, key: Any, value: Any, weights: Any, factors_of_all: Any, options: Options
) -> Tuple[Any, Any, Any]:
    """Return the gradients of `query`, `key` and `value`, from the weights and factors that `forward` returned.

    `gradient` is that of the attention, batch x queries x heads x width.
    """
    sizes = sizes_of(query, key, options)
    shapes = query.shape, key.shape, value.shape
    gradient = _flat(gradient.to(query.dtype).transpose(1, 2), query.shape[2])
    query, key, value = _flat(query, query.shape[2]), _flat(key, sizes.keys), _flat(value, sizes.keys)
    grad_query, grad_key, grad_value = torch.empty_like(query), torch.zeros_like(key), torch.zeros_like(value)
    for block in blocks(sizes, query.element_size()):
        at, seen = (block.flat, block.queries), (block.flat, slice(block.key_end))
        kept = softmax = weights[block.scores].view(block.shape)
        grad_softmax = _product(gradient[at], value[seen].transpose(1, 2), scale_of(options.dropped))
        if options.dropped:
            factors = factors_of_all[block.scores].view(block.shape).to(grad_softmax.dtype)
            kept, grad_softmax = softmax * factors, grad_softmax.mul_(factors)
        grad_value[seen] += _product(kept.transpose(1, 2), gradient[at], scale_of(options.dropped))
        grad_scores = torch._softmax_backward_data(grad_softmax, softmax, -1, softmax.dtype)
        grad_query[at] = _product(grad_scores, key[seen], options.scaling)
        grad_key[seen] += _product(grad_scores.transpose(1, 2), query[at], options.scaling)
    results = zip((grad_query, grad_key, grad_value), shapes)
    query, key, value = (each.view(*shape[:2], -1, shape[3])[:, :, : shape[2]] for each, shape in results)
    return query, key, value


def sizes_of(query: Any, key: Any, options: Options) -> Sizes:
    """Return the sizes of an attention, from tensors of batch x heads x tokens x width."""
    keys = padded_count(key.shape[2], key.element_size())
    return Sizes(query.shape[0], query.shape[1], query.shape[2], keys, options.is_causal)


def _flat(tensor: Any, length: int) -> Any:
    """Return (batch x heads) x `length` x width, with zeros behind the tokens."""
    batch, heads, tokens, width = tensor.shape
    if tokens == length:
        return tensor.reshape(batch * heads, length, width)
    longer = tensor.new_zeros(batch, heads, length, width)
    longer[:, :, :tokens] = tensor
    return longer.view(batch * heads, length, width)


def _added_mask(mask: Optional[Any], sizes: Sizes, keys: int, like: Any) -> Optional[Any]:
    """Return the mask as numbers to add to the scores, with padding keys masked; None for no mask."""
    if mask is None and not sizes.is_causal and keys == sizes.keys:
        return None
    lowest = torch.finfo(like.dtype).min
    shape = (1, 1, sizes.queries, sizes.keys) if mask is None else (*mask.shape[:3], sizes.keys)
    added = like.new_full(shape, lowest)
    if mask is None:
        added[..., :keys] = 0
        if sizes.is_causal:
            added = torch.where(torch.ones(shape[2:], dtype=torch.bool).tril(), added, lowest)
    elif mask.dtype == torch.bool:
        added[..., :keys].masked_fill_(mask, 0)
    else:
        added[..., :keys] = mask.clamp(min=max(lowest, torch.finfo(mask.dtype).min))
    return added.expand(sizes.batch, -1, sizes.queries, -1)


def _add_mask(scores: Any, added: Any, block: Block) -> None:
    heads = block.heads if added.shape[1] > 1 else slice(None)
    rows = block.rows.stop - block.rows.start
    scores.view(rows, -1, *block.shape[1:]).add_(added[block.rows, heads, block.queries, : block.key_end])


def _product(left: Any, right: Any, factor: float) -> Any:
    if factor == 1:
        return torch.bmm(left, right)
    return torch.baddbmm(left.new_empty(1, 1, 1), left, right, beta=0, alpha=factor)
