"""Model the samples that a training needs as a smooth function of batch size and learning rate. Pure.

The model starts from theory: S(B) = S_min (1 + B / B_noise) at the best learning rate of each batch size (McCandlish et
al. 2018, "An Empirical Model of Large-Batch Training", arXiv:1812.06162, equation 2.11). A rate that is d octaves off
takes ((2^d + 2^-d) / 2)^k times as many samples. This is flat near the best rate. Far from it, k = 1 gives a factor of
two per octave, because half the rate makes half the progress. The multiplier of the best rate drifts with the batch
size if the scaling rule does not fit the model (linear where theory says square root: half an octave down per octave).

None of these constants is known. The prediction averages over them, weighted by the likelihood of the observations, and
a Gaussian process models the departures from theory. All samples are natural logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, solve_triangular

from sweeps.space.grid import Point, Space

Array = NDArray[np.float64]

DEPARTURES = (0.1, 0.3)
"""Assumed standard deviations of the departures from theory. Each one makes hypotheses of its own."""
SIZE_OCTAVES, RATE_OCTAVES = 2.0, 1.5
"""Length scales of a departure, in octaves of batch size and of learning rate."""
SCALE_DEVIATION = 3.0
"""Standard deviation of the overall scale, about which almost nothing is known."""
BEST_RATES = np.arange(-3.0, 3.01, 0.5)
"""Octaves from the base's multiplier to the best one at its batch size; normal around 0 with `RATE_DEVIATION`."""
RATE_DEVIATION = 1.25
DRIFTS = {-1.0: 0.1, -0.5: 0.25, -0.25: 0.2, 0.0: 0.3, 0.25: 0.15}
"""Octaves of the best multiplier per octave of the batch size, with their prior weights."""
SHARPNESS = {0.3: 0.3, 1.0: 0.5, 3.0: 0.2}
"""The exponent k, with its prior weights."""
MAX_HYPOTHESES, MIN_HYPOTHESES = 200, 20
"""Largest and smallest number of hypotheses in a prediction. More points leave fewer hypotheses."""
MAX_PREDICTIONS = 40_000
"""Largest number of predictions: hypotheses times points."""


@dataclass(frozen=True, kw_only=True)
class Observation:
    """Estimate from one trial."""

    point: Point
    log_samples: float
    """Logarithm of the samples that the point needs."""
    error: float
    """Standard deviation of `log_samples`."""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Mixture of normal distributions at each of several points."""

    weights: Array
    """Weight of each hypothesis; they sum to 1."""
    means: Array
    """Logarithm of the samples, with a row per hypothesis and a column per point."""
    deviations: Array
    """Standard deviations, in the same shape."""

    @property
    def mean(self) -> Array:
        """Mean of the mixture at each point."""
        return np.asarray(self.weights @ self.means)


@dataclass(frozen=True)
class _Hypotheses:
    """All combinations of the constants; entry i of each array belongs to combination i."""

    log2_noise: Array
    best_rate: Array
    drift: Array
    sharpness: Array
    log_prior: Array

    def __getitem__(self, chosen: NDArray[np.intp]) -> _Hypotheses:
        parts = (self.log2_noise, self.best_rate, self.drift, self.sharpness, self.log_prior)
        return _Hypotheses(*(part[chosen] for part in parts))

    def at(self, size: Array, rate: Array, base_size: float) -> Array:
        """Return the logarithm of the samples without the scale, with a row per hypothesis and a column per point."""
        off = rate - self.best_rate[:, None] - self.drift[:, None] * (size - base_size)
        wrong_rate = np.logaddexp(off * math.log(2), -off * math.log(2)) - math.log(2)
        too_large = np.log1p(2.0 ** (size - self.log2_noise[:, None]))
        return np.asarray(too_large + self.sharpness[:, None] * wrong_rate)


def predict(
    space: Space, base: Point, seen: Sequence[Observation], points: Sequence[Point], expected_samples: float
) -> Prediction:
    """Predict the samples at `points` from the observations; `expected_samples` is a first guess of their scale."""
    hypotheses = _hypotheses(space)
    base_size = math.log2(base.batch_size)
    at, to = _coordinates([each.point for each in seen], base), _coordinates(points, base)
    off = np.array([each.log_samples for each in seen]) - math.log(expected_samples) - hypotheses.at(*at, base_size)
    fits = [_fit(at, np.array([each.error for each in seen]), off, departure) for departure in DEPARTURES]
    log_weights = np.concatenate([fit.log_likelihood + hypotheses.log_prior for fit in fits])
    count = min(max(MAX_PREDICTIONS // len(points), MIN_HYPOTHESES), MAX_HYPOTHESES)
    likeliest = np.argsort(-log_weights, kind="stable")[:count]
    weights = np.exp(log_weights[likeliest] - log_weights[likeliest[0]])
    means, deviations = np.empty((2, len(likeliest), len(points)))
    for number, (fit, departure) in enumerate(zip(fits, DEPARTURES, strict=True)):
        mine = likeliest // len(hypotheses.drift) == number
        chosen = likeliest[mine] % len(hypotheses.drift)
        across = _kernel(at, to, departure)
        means[mine] = (
            hypotheses[chosen].at(*to, base_size) + math.log(expected_samples) + fit.solved[:, chosen].T @ across
        )
        explained = solve_triangular(fit.root, across, lower=True)
        variance = departure**2 + SCALE_DEVIATION**2 - np.sum(explained**2, axis=0)
        deviations[mine] = np.sqrt(np.maximum(variance, 1e-6))
    return Prediction(weights=weights / weights.sum(), means=means, deviations=deviations)


@dataclass(frozen=True)
class _Fit:
    root: Array
    """Cholesky factor (lower triangle) of the covariance of the observations."""
    solved: Array
    """Inverse covariance times the residuals of each hypothesis, one per column."""
    log_likelihood: Array


def _fit(at: tuple[Array, Array], errors: Array, off: Array, departure: float) -> _Fit:
    root = cholesky(_kernel(at, at, departure) + np.diag(errors**2), lower=True)
    solved = cho_solve((root, True), off.T)
    likelihood = -0.5 * np.sum(off.T * solved, axis=0) - np.sum(np.log(np.diag(root)))
    return _Fit(root=root, solved=solved, log_likelihood=likelihood)


def _kernel(one: tuple[Array, Array], other: tuple[Array, Array], departure: float) -> Array:
    size = (one[0][:, None] - other[0][None, :]) / SIZE_OCTAVES
    rate = (one[1][:, None] - other[1][None, :]) / RATE_OCTAVES
    return np.asarray(departure**2 * np.exp(-0.5 * (size**2 + rate**2)) + SCALE_DEVIATION**2)


def _coordinates(points: Sequence[Point], base: Point) -> tuple[Array, Array]:
    """Return the octaves of batch size, and of multiplier relative to the base's, which is the best prior guess."""
    sizes = np.array([math.log2(point.batch_size) for point in points])
    return sizes, np.array([math.log2(point.multiplier / base.multiplier) for point in points])


def _hypotheses(space: Space) -> _Hypotheses:
    """Return every hypothesis. The noise scale ranges from below the smallest batch size to far above the largest."""
    noise = np.arange(math.log2(space.batch_sizes[0]) - 1, math.log2(space.batch_sizes[-1]) + 5)
    grid = np.meshgrid(noise, BEST_RATES, list(DRIFTS), list(SHARPNESS), indexing="ij")
    log2_noise, best_rate, drift, sharpness = (part.ravel() for part in grid)
    prior = -0.5 * (best_rate / RATE_DEVIATION) ** 2
    prior += np.log([DRIFTS[each] for each in drift]) + np.log([SHARPNESS[each] for each in sharpness])
    return _Hypotheses(log2_noise, best_rate, drift, sharpness, prior)
