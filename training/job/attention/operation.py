"""Blockwise attention as a differentiable operation that can be compiled, and that transformers can look up."""

from typing import Any, Optional, Tuple

import torch

from attention import blockwise, compiled
from attention.blockwise import Options
from compilation.dropout import HAS_CUSTOM_OPS, LEVELS, is_compiling

NAME = "blockwise"
"""Name of the implementation in the registry of transformers."""
MODEL_TYPES = (
    *("albert", "bert", "camembert", "distilbert", "electra", "gpt2", "llama", "mistral", "qwen2", "qwen3"),
    *("roberta", "xlm-roberta"),
)
"""Models for which `auto` selects it, with transformers 5. Tests compare their gradients with those of eager."""
UNSUPPORTED = ("head_mask", "softcap", "s_aux", "position_bias")
"""Arguments with which some models change the scores in ways that this implementation does not."""


def attend(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Optional[Any],
    scaling: Optional[float] = None,
    dropout: float = 0.0,
    is_causal: Optional[bool] = None,
    **more: Any,
) -> Tuple[Any, None]:
    """Return the attention, batch x queries x heads x width, and no weights.

    Arguments are those of transformers' implementations: `query`, `key` and `value` are batch x heads x tokens x width.
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
    options = Options(scaling, round(dropout * LEVELS), causal)
    if is_compiling():
        return compiled.attend(query, key, value, attention_mask, options), None
    return _Blockwise.apply(query, key, value, attention_mask, options), None


def _eager(query: Any, key: Any, value: Any, mask: Optional[Any], scaling: float, causal: bool) -> Any:
    """Compute as transformers' `eager` does, so that predictions give the same numbers. For evaluations."""
    scores = torch.matmul(query, key.transpose(2, 3)) * scaling
    if causal:
        mask = torch.ones(scores.shape[2:], dtype=torch.bool, device=scores.device).tril()
    if mask is not None:
        if mask.dtype == torch.bool:
            mask = torch.zeros(mask.shape, device=mask.device).masked_fill(~mask, torch.finfo(torch.float32).min)
        scores = scores + mask
    weights = torch.softmax(scores, -1, dtype=torch.float32).to(query.dtype)
    return torch.matmul(weights, value).transpose(1, 2).contiguous()


def register(compiles: bool = False) -> bool:
    """Add the implementation to the registry of transformers.

    Return False if transformers has no such registry, or if torch cannot register operations for the compiler.

    A compiler needs an operation with known shapes. Start-up is billed, so other jobs skip its registration.
    """
    try:
        from transformers import AttentionInterface, AttentionMaskInterface
        from transformers.masking_utils import sdpa_mask
    except ImportError:
        return False
    if compiles:
        if not HAS_CUSTOM_OPS:
            return False
        compiled.register()
    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    return True


class _Blockwise(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(context: Any, query: Any, key: Any, value: Any, mask: Optional[Any], options: Options) -> Any:
        keeps = any(context.needs_input_grad)
        output, weights, factors = blockwise.forward(query, key, value, mask, options, keeps)
        context.save_for_backward(query, key, value, weights, factors)
        context.options = options
        return output

    @staticmethod
    def backward(context: Any, gradient: Any) -> Tuple[Any, ...]:
        query, key, value, weights, factors = context.saved_tensors
        return (*blockwise.backward(gradient, query, key, value, weights, factors, context.options), None, None)
