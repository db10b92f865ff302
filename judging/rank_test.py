"""Differences between two arms by ranks: a few slow jobs cannot hide a difference, as they can in a mean.

Pure arithmetic on logarithms or other values on an additive scale. Every rule has a test worked out by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, product
from operator import sub
from statistics import median


@dataclass(frozen=True)
class RankTest:
    """Arm and baseline compared by ranks."""

    differences: tuple[float, ...]
    """Arm minus baseline for every pair of jobs, ascending."""
    n_arm: int
    n_baseline: int

    @property
    def estimate(self) -> float:
        """The median of all pairs' differences (Hodges and Lehmann 1963)."""
        return median(self.differences)

    def low(self, level: float) -> float:
        """Return the lower end of the interval that is too high with probability `level` at most; see `fits`."""
        return self.differences[max(self._position(level), 1) - 1]

    def high(self, level: float) -> float:
        """Return the upper end of the interval that is too low with probability `level` at most; see `fits`."""
        return self.differences[-max(self._position(level), 1)]

    def fits(self, level: float) -> bool:
        """Return whether there are enough jobs for an end of the interval with this level."""
        return self._position(level) > 0

    def _position(self, level: float) -> int:
        """Return the position, from 1, of the interval's end among the differences; 0 if no position has the level."""
        return sum(probability <= level for probability in _cumulative(self.n_arm, self.n_baseline))


def rank_test(arm: Sequence[float], baseline: Sequence[float]) -> RankTest:
    """Return the comparison by ranks of two sides with at least one value each."""
    differences = sorted(mine - others for mine, others in product(arm, baseline))
    return RankTest(tuple(differences), len(arm), len(baseline))


@cache
def _cumulative(n: int, m: int) -> tuple[float, ...]:
    """Return P(U <= u) for u = 0 ... n m, where U counts the pairs in which the first of two equal sides is smaller."""
    sums = list(accumulate(_orders(n, m)))
    return tuple(each / sums[-1] for each in sums)


def _orders(n: int, m: int) -> list[int]:
    """Return the number of orders of n and m jobs in which u pairs are smaller, for u = 0 ... n m.

    These are the coefficients of q^u in the Gaussian binomial coefficient, the product of (1 - q^(n + i)) / (1 - q^i)
    for i = 1 ... m (Mann and Whitney 1947; Andrews, The Theory of Partitions, chapter 3).
    """
    counts = [1] + [0] * (n * m)
    for i in range(1, m + 1):
        counts = list(map(sub, counts, [0] * (n + i) + counts))
        for first in range(i):
            counts[first::i] = accumulate(counts[first::i])
    return counts
