"""Implementations of attention among which a trial chooses."""

import importlib.util
from typing import Any, List, Tuple

import torch

from settings.job_settings import Settings
from weights.pretrained import set_attention

FLASH = "flash_attention_2"
FLASH_CAPABILITY = (8, 0)
"""First compute capability with kernels of FlashAttention 2: Ampere."""
BYTES_PER_SCORE = 16
"""Bytes per score that eager attention keeps for the backward pass: scores, mask, softmax in 32 bits, and dropout."""
MAX_SHARE_OF_SCORES = 0.02
"""Share of the GPU's memory that eager attention may need. Above it, eager attention is unlikely to win, and a job of
the group with a larger batch might run out of memory."""


def attention_candidates(settings: Settings, model: Any) -> List[str]:
    """Return the implementations to compare on this device, beginning with the preferred one, `settings.attention`.

    On a GPU, those that the model lacks or that need too much memory are left out.
    """
    if settings.device_kind == "cpu":
        return list(dict.fromkeys([settings.attention, "eager", "sdpa"]))
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return gpu_candidates(settings, model, properties.total_memory, (properties.major, properties.minor))


def gpu_candidates(settings: Settings, model: Any, memory_bytes: int, capability: Tuple[int, int]) -> List[str]:
    """Return the implementations to compare on a GPU with this memory and compute capability."""
    candidates, arguments = [settings.attention], settings.arguments
    if can_use(model, "sdpa"):
        candidates.append("sdpa")
    rows = max((arguments.batch_size, *arguments.calibration_batch_sizes))
    if score_bytes(model.config, rows, settings.train.metadata.max_length) <= MAX_SHARE_OF_SCORES * memory_bytes:
        candidates.append("eager")
    flash_runs_here = settings.precision != "fp32" and capability >= FLASH_CAPABILITY
    if flash_runs_here and importlib.util.find_spec("flash_attn") and can_use(model, FLASH):
        candidates.append(FLASH)
    return list(dict.fromkeys(candidates))


def can_use(model: Any, attention: str) -> bool:
    """Return True if the model has an implementation. The current one is restored."""
    before = model.config._attn_implementation
    try:
        return set_attention(model, attention)
    finally:
        set_attention(model, before)


def score_bytes(config: Any, rows: int, tokens: int) -> float:
    """Return the bytes that eager attention keeps for the backward pass of a batch of `rows` x `tokens`, over all
    layers; infinity if unknown."""
    layers, heads = (getattr(config, name, None) for name in ("num_hidden_layers", "num_attention_heads"))
    return float(BYTES_PER_SCORE * layers * heads * rows * tokens**2) if layers and heads else float("inf")
