"""Correlations of predicted and actual numbers, and their metrics."""

import numpy as np

from training.job.tasks.task import Metric

SPEARMAN = Metric("eval_spearman", "Spearman correlation", "fraction", higher_is_better=True, best=1.0)
PEARSON = Metric("eval_pearson", "Pearson correlation", "fraction", higher_is_better=True, best=1.0)


def ranks(values: np.ndarray) -> np.ndarray:
    """Return the ranks of values from 0. Equal values share the mean of their ranks."""
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts + 1) / 2)[group])


def pearson(first: np.ndarray, second: np.ndarray) -> float:
    """Return the correlation of two rows of numbers, from -1 to 1; 0 if all numbers of a row are equal."""
    one, two = (values.astype(np.float64) - values.mean(dtype=np.float64) for values in (first, second))
    scale = float(np.sqrt((one @ one) * (two @ two)))
    return float(one @ two) / scale if scale > 0 else 0.0


def spearman(first: np.ndarray, second: np.ndarray) -> float:
    """Return the correlation of the ranks of two rows of numbers."""
    return pearson(ranks(first), ranks(second))
