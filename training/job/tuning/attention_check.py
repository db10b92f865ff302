"""Check that a model computes the same with another implementation of attention."""

from typing import Any, Dict

import numpy as np

from settings.job_settings import Settings
from tuning.trial_steps import batch_of, keep_one_layer, layer_stacks, undone
from weights.pretrained import set_attention

TOLERANCE = 1e-3
"""Largest difference between hidden states, relative to the largest number, that counts as rounding."""
TARGETS = ("labels", "start_positions", "end_positions")


def agrees(settings: Settings, model: Any, attention: str) -> bool:
    """Return True if the model computes the same with an implementation of attention as with its present one.

    Compared are the hidden states of the shortest and the longest row, after one layer where layers can be left out, in
    32 bits and without dropout. The model is unchanged afterwards.
    """
    lengths = settings.train.rows.lengths
    batch = batch_of(settings, (int(np.argmin(lengths)), int(np.argmax(lengths))))
    with undone(model):
        keep_one_layer(layer_stacks(model))
        model.eval()
        try:
            expected = _hidden_states(model, batch)
            if not set_attention(model, attention):
                return False
            # Models differ in what they pass to attention, and an implementation can refuse it.
            difference = (_hidden_states(model, batch) - expected).abs().max()
        except (RuntimeError, TypeError, ValueError):
            return False
        return bool(difference <= TOLERANCE * expected.abs().max())


def _hidden_states(model: Any, batch: Dict[str, Any]) -> Any:
    # With gradients, as some implementations compute differently without them. Not the head: the logits of a language
    # model would take gigabytes.
    inputs = {name: value for name, value in batch.items() if name not in TARGETS}
    return model.base_model(**inputs)[0].detach()[batch["attention_mask"].bool()]
