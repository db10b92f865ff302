"""The looks of a comparison whose repeats arrive in waves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

from judging.intervals import CONFIDENCE
from judging.non_inferiority import ERROR
from judging.spending import early_spending, look_levels, pocock_spending

RULES = 4
"""Version of the rules by which comparisons are judged. docs/measuring.md lists them."""
FIRST_WITH_SEEDS = 4
"""First version of the rules by which arms that learn in another way need all of their repeats to pass."""
MIN_SEEDS = 5
"""Fewest seeds that can pass such an arm."""


@dataclass(frozen=True, kw_only=True)
class Design:
    """The looks of a comparison. They are fixed before its first job, and kept when it is resumed or attached to."""

    looks: tuple[int, ...] = (3, 5, 7, 9)
    """Repeats of an arm at each look, ascending. The last is the most repeats."""
    least_gain: float = 0.05
    """Least gain worth having, as a share of the baseline's cost."""
    margin: float | None = None
    """Largest acceptable loss of quality, in the metric's unit; None takes the metric's own."""
    trainings: int = 1
    """Number of trainings to come, of which the first starts with a cold compile cache. The report estimates what they
    cost; the verdict is for a warm cache."""
    when_disturbed: Literal["keep", "repeat"] = "keep"
    """`repeat` runs a successful job again, once, if others disturbed its measurement. The second job then counts in
    place of the first, whatever its result."""
    rules: int = RULES
    """Version of the rules."""
    families: int = 1
    """Comparisons with other baselines among which the error is divided too."""

    def levels(self, comparisons: int = 1) -> tuple[float, ...]:
        """Return the two-sided significance level of each look, if the error is divided among several comparisons.

        Together, the looks call two equal arms different in at most 5 % / `comparisons`.
        """
        return _levels(self.looks, (1 - CONFIDENCE) / (comparisons * self.families), self.rules)

    def quality_levels(self) -> tuple[float, ...]:
        """Return the one-sided significance level of each look at the quality.

        Together, the looks pass an arm that is worse by the margin in at most 5 %.
        """
        return tuple(level / 2 for level in _levels(self.looks, 2 * ERROR, self.rules))

    def seed_level(self, number: int) -> float | None:
        """Return the one-sided level at which look `number` passes an arm that learns in another way; None if it
        passes none.

        A few seeds of such an arm may diverge, and three seeds often show none of them. So only the last look can pass
        it, with the whole error. Versions of the rules before 4 passed such arms at every look.
        """
        if self.rules < FIRST_WITH_SEEDS:
            return self.quality_levels()[number]
        return ERROR if number == len(self.looks) - 1 else None


@cache
def _levels(looks: tuple[int, ...], error: float, rules: int) -> tuple[float, ...]:
    return look_levels(looks, error, pocock_spending if rules == 2 else early_spending)
