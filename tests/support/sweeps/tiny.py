"""Fields of a tiny sweep."""

from __future__ import annotations

from tests.support.job import tiny

TINY = {
    **tiny.TINY,
    "compilers": "none",
    "batch_sizes": "4..16",
    "calibration_seconds": 0.1,
    "target.metric": "eval_loss",
    "machine.cores": 1,
}
"""Two labels and random weights: a loss of about 0.69 from the first evaluation on."""
