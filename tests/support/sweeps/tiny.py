"""Fields of a tiny sweep."""

from __future__ import annotations

TINY = {
    "weights": "random",
    "model_overrides": "{num_hidden_layers: 1, hidden_size: 32, num_attention_heads: 2, intermediate_size: 64}",
    "compilers": "none",
    "batch_sizes": "4..16",
    "calibration_seconds": 0.1,
    "target.metric": "eval_loss",
    "machine.cores": 1,
}
"""Two labels and random weights: a loss of about 0.69 from the first evaluation on."""
