"""Samples that a training needs, as a smooth function of batch size and learning rate: theory's curve and departures.

The theory: S(B) = S_min (1 + B / B_noise) at the best learning rate of each batch size (McCandlish et al. 2018, "An
Empirical Model of Large-Batch Training", arXiv:1812.06162, equation 2.11). A rate that is d octaves off takes
((2^d + 2^-d) / 2)^k times as many: even near the best rate, and a factor of two for each octave far from it where k is
1, as where half the rate goes half as far. The best rate's multiplier drifts with the batch where the scaling rule is
not the model's own (linear where theory says square root: half an octave down for each octave of the batch).

None of these constants is known. They are averaged over, each choice weighed by how likely it makes what was seen, and
a Gaussian process takes what the theory misses. Natural logarithms of samples throughout. Pure.
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
"""Standard deviations of what the theory misses."""
SIZE_OCTAVES, RATE_OCTAVES = 2.0, 1.5
"""Distances over which a departure lasts."""
SCALE_DEVIATION = 3.0
"""Standard deviation of the whole scale: hardly anything is known of it."""
BEST_RATES = np.arange(-3.0, 3.01, 0.5)
"""Octaves from the base's multiplier at which its batch size learns best, normal around 0 with `RATE_DEVIATION`."""
RATE_DEVIATION = 1.25
DRIFTS = {-1.0: 0.1, -0.5: 0.25, -0.25: 0.2, 0.0: 0.3, 0.25: 0.15}
"""Octaves of the best multiplier for each octave of the batch, with their prior weights."""
SHARPNESS = {0.3: 0.3, 1.0: 0.5, 3.0: 0.2}
"""The exponent k, with its prior weights."""
MOST_HYPOTHESES, LEAST_HYPOTHESES = 200, 20
"""Of the choices of constants, those that predict: the fewer, the more points there are."""
MOST_PREDICTIONS = 40_000
"""Of all of them at all points."""


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What one trial tells."""

    point: Point
    log_samples: float
    """Samples that the point needs."""
    error: float
    """Standard deviation of it."""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What is expected at each of several points: a mixture of normal distributions."""

    weights: Array
    """Of each choice of constants, adding up to 1."""
    means: Array
    """Logarithm of the samples, a row for each choice and a column for each point."""
    deviations: Array
    """Standard deviations, likewise."""

    @property
    def mean(self) -> Array:
        """Mean of each point."""
        return np.asarray(self.weights @ self.means)


@dataclass(frozen=True)
class _Hypotheses:
    """Every choice of the constants, one an entry."""

    log2_noise: Array
    best_rate: Array
    drift: Array
    sharpness: Array
    log_prior: Array

    def __getitem__(self, chosen: NDArray[np.intp]) -> _Hypotheses:
        parts = (self.log2_noise, self.best_rate, self.drift, self.sharpness, self.log_prior)
        return _Hypotheses(*(part[chosen] for part in parts))

    def at(self, size: Array, rate: Array, base_size: float) -> Array:
        """Return the logarithm of the samples, but for the scale: a row a choice, a column a point."""
        off = rate - self.best_rate[:, None] - self.drift[:, None] * (size - base_size)
        wrong_rate = np.logaddexp(off * math.log(2), -off * math.log(2)) - math.log(2)
        too_large = np.log1p(2.0 ** (size - self.log2_noise[:, None]))
        return np.asarray(too_large + self.sharpness[:, None] * wrong_rate)


def predict(
    space: Space, base: Point, seen: Sequence[Observation], points: Sequence[Point], expected_samples: float
) -> Prediction:
    """Return what is expected at `points`, given what was seen; `expected_samples` is a guess of the scale."""
    hypotheses = _hypotheses(space)
    base_size = math.log2(base.batch_size)
    at, to = _places([each.point for each in seen], base), _places(points, base)
    off = np.array([each.log_samples for each in seen]) - math.log(expected_samples) - hypotheses.at(*at, base_size)
    fits = [_fit(at, np.array([each.error for each in seen]), off, departure) for departure in DEPARTURES]
    log_weights = np.concatenate([fit.log_likelihood + hypotheses.log_prior for fit in fits])
    count = min(max(MOST_PREDICTIONS // len(points), LEAST_HYPOTHESES), MOST_HYPOTHESES)
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
    """Lower triangle whose square is the covariance of what was seen."""
    solved: Array
    """Covariance's inverse times what each choice leaves to explain, a column a choice."""
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


def _places(points: Sequence[Point], base: Point) -> tuple[Array, Array]:
    """Return the octaves of batch size, and of multiplier from the base's: its rate is the best guess beforehand."""
    sizes = np.array([math.log2(point.batch_size) for point in points])
    return sizes, np.array([math.log2(point.multiplier / base.multiplier) for point in points])


def _hypotheses(space: Space) -> _Hypotheses:
    """Return every choice; the noise scale lies anywhere from below the smallest batch to far above the largest."""
    noise = np.arange(math.log2(space.batch_sizes[0]) - 1, math.log2(space.batch_sizes[-1]) + 5)
    grid = np.meshgrid(noise, BEST_RATES, list(DRIFTS), list(SHARPNESS), indexing="ij")
    log2_noise, best_rate, drift, sharpness = (part.ravel() for part in grid)
    prior = -0.5 * (best_rate / RATE_DEVIATION) ** 2
    prior += np.log([DRIFTS[each] for each in drift]) + np.log([SHARPNESS[each] for each in sharpness])
    return _Hypotheses(log2_noise, best_rate, drift, sharpness, prior)
