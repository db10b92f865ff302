"""Fields of a tiny training."""

from __future__ import annotations

TINY = {
    "weights": "random",
    "model_overrides": "{num_hidden_layers: 1, hidden_size: 32, num_attention_heads: 2, intermediate_size: 64}",
}
"""One layer with random weights, which trains and compiles fast."""
