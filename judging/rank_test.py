"""Differences between two arms by ranks: a few slow jobs cannot hide a difference, as they can in a mean.

Pure arithmetic on logarithms or other values on an additive scale. Every rule has a test worked out by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
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

    @property
    def p_value(self) -> float:
        """Two-sided p-value of Mann and Whitney's exact test. A tie counts as half a pair for either side."""
        below = sum(each < 0 for each in self.differences) + sum(each == 0 for each in self.differences) / 2
        pairs = len(self.differences)
        return min(1.0, 2 * min(self._at_most(below), self._at_most(pairs - below)))

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

    def _at_most(self, pairs: float) -> float:
        """Return the probability of at most this many pairs in favour of one side; half a pair counts as a whole."""
        return _cumulative(self.n_arm, self.n_baseline)[-int(-pairs // 1)]


def rank_test(arm: Sequence[float], baseline: Sequence[float]) -> RankTest:
    """Return the comparison by ranks of two sides with at least one value each."""
    differences = sorted(mine - others for mine, others in product(arm, baseline))
    return RankTest(tuple(differences), len(arm), len(baseline))


@cache
def _cumulative(n: int, m: int) -> tuple[float, ...]:
    """Return P(U <= u) for u = 0 ... n m, where U counts the pairs in which the first of two equal sides is smaller.

    Mann and Whitney (1947): the orders of n and m jobs in which u pairs are smaller number f(n, m, u) = f(n - 1, m,
    u - m) + f(n, m - 1, u).
    """
    counts = _orders(n, m)
    total, sums = sum(counts), 0
    cumulative = []
    for count in counts:
        sums += count
        cumulative.append(sums / total)
    return tuple(cumulative)


@cache
def _orders(n: int, m: int) -> tuple[int, ...]:
    if n == 0 or m == 0:
        return (1,)
    without_arm, without_baseline = _orders(n - 1, m), _orders(n, m - 1)
    shifted = (0,) * m + without_arm
    longer = without_baseline + (0,) * (len(shifted) - len(without_baseline))
    return tuple(a + b for a, b in zip(shifted, longer, strict=True))
