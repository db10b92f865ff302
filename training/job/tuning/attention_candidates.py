"""Implementations of attention among which a trial chooses."""

import importlib.util
from typing import Any, List

import torch

from settings.job_settings import Settings
from weights.pretrained import set_attention

FLASH = "flash_attention_2"
FLASH_CAPABILITY = (8, 0)
"""First compute capability with kernels of FlashAttention 2: Ampere."""
BYTES_PER_SCORE = 16
"""Memory that eager attention keeps for the backward pass: scores, mask, softmax in 32 bits, and dropout."""
MAX_SHARE_OF_SCORES = 0.02
"""Share of the GPU's memory that eager attention may need. Beyond it, reading and writing the scores takes longer than
computing them, and a larger batch of the group might not fit."""


def attention_candidates(settings: Settings, model: Any) -> List[str]:
    """Return the implementations to try on this device, without the preferred one, `settings.attention`.

    On a GPU, `model` may not have some of them, or they may need too much memory.
    """
    if settings.device_kind == "cpu":
        return ["eager", "sdpa"]
    candidates = ["sdpa"] if can_use(model, "sdpa") else []
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    needed = score_bytes(model.config, settings.arguments.batch_size, settings.train.metadata.max_length)
    if needed <= MAX_SHARE_OF_SCORES * properties.total_memory:
        candidates.append("eager")
    has_kernels = settings.precision != "fp32" and (properties.major, properties.minor) >= FLASH_CAPABILITY
    if has_kernels and importlib.util.find_spec("flash_attn") and can_use(model, FLASH):
        candidates.append(FLASH)
    return candidates


def can_use(model: Any, attention: str) -> bool:
    """Return True if the model has an implementation. The one in use stays."""
    before = model.config._attn_implementation
    try:
        return set_attention(model, attention)
    finally:
        set_attention(model, before)


def score_bytes(config: Any, rows: int, tokens: int) -> float:
    """Return the bytes of all scores of eager attention in a batch of `rows` x `tokens`; infinite if unknown."""
    layers, heads = (getattr(config, name, None) for name in ("num_hidden_layers", "num_attention_heads"))
    return float(BYTES_PER_SCORE * layers * heads * rows * tokens**2) if layers and heads else float("inf")
