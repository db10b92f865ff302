"""Correlations of predicted and actual numbers, and their metrics."""

from typing import TYPE_CHECKING

from training.job.tasks.task import Metric

if TYPE_CHECKING:
    import numpy as np

SPEARMAN = Metric("eval_spearman", "Spearman correlation", "fraction", higher_is_better=True, best=1.0)
PEARSON = Metric("eval_pearson", "Pearson correlation", "fraction", higher_is_better=True, best=1.0)


def ranks(values: "np.ndarray") -> "np.ndarray":
    """Return the ranks of values from 0. Equal values share the mean of their ranks."""
    import numpy as np

    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts + 1) / 2)[group])


def pearson(first: "np.ndarray", second: "np.ndarray") -> float:
    """Return the correlation of two rows of numbers, from -1 to 1; 0 if all numbers of a row are equal."""
    one, two = (values.astype("float64") - values.mean(dtype="float64") for values in (first, second))
    scale = float((one @ one) * (two @ two)) ** 0.5
    return float(one @ two) / scale if scale > 0 else 0.0


def spearman(first: "np.ndarray", second: "np.ndarray") -> float:
    """Return the correlation of the ranks of two rows of numbers."""
    return pearson(ranks(first), ranks(second))
