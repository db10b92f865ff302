"""Quality metrics, and an arm's quality against the baseline's."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from judging.intervals import CONFIDENCE, Interval

Unit = Literal["fraction", "percent", "number"]
"""Unit of a metric: 0 to 1, 0 to 100, or any other."""
MOST_MARGINS = 20
"""Width of the interval of a difference, in margins, above which it says nothing, if it includes 0. For an accuracy,
this is 0.6."""


_MARGINS: dict[Unit, float] = {"fraction": 0.03, "percent": 3.0, "number": 0.05}
"""Margin of the metrics in each unit: absolute for fractions and percent, relative to the baseline's mean for other
numbers. docs/judging.md has the reasons."""


@dataclass(frozen=True)
class Measure:
    """A quality metric. Its unit determines how much worse an arm may be."""

    column: str
    """Metric name, and its column in the table of jobs."""
    name: str
    """Name for people."""
    unit: Unit
    higher_is_better: bool
    has_unit: bool = True
    """False if the unit of the values is not known, so that the margin cannot be used."""

    @property
    def label(self) -> str:
        """Name with the unit, if it is known."""
        return f"{self.name} (%)" if self.unit == "percent" and self.has_unit else self.name

    @property
    def is_relative(self) -> bool:
        """True if the margin is relative to the baseline's mean."""
        return self.unit == "number"

    @property
    def margin(self) -> float:
        """Largest acceptable loss of quality."""
        return _MARGINS[self.unit]

    def margin_at(self, baseline: float) -> float:
        """Return the margin in the metric's unit, for a baseline with this mean."""
        return self.margin * abs(baseline) if self.is_relative else self.margin


@dataclass(frozen=True)
class Quality:
    """An arm's quality against the baseline's."""

    measure: Measure
    arm: float
    """Mean over the arm's repeats."""
    baseline: float
    """Mean over the baseline's repeats."""
    difference: Interval
    """Arm minus baseline."""
    kept: bool
    """True if the repeats show that the arm is worse by no more than the margin."""
    shown_beyond: bool
    """True if the repeats show that the arm is worse by more than the margin."""
    margin: float
    """Largest acceptable loss, in the metric's unit."""
    most_lost: float
    """Largest loss that the repeats do not rule out, in the metric's unit."""
    repeats_to_show: int | None
    """Repeats of an arm that would show, in 80 %, that the quality is kept; None if no number would."""
    seeds: int
    """Seeds of the arm that were scored."""
    is_paired: bool
    """True if the arm trains like the baseline, so that the scores of equal seeds were compared."""
    commonest: float | None = None
    """Score of always answering the commonest class, if it is known."""
    is_above_commonest: bool = True
    """False if the arm is not shown to score better than `commonest`. Its quality is then not kept."""

    @property
    def is_within_margin(self) -> bool:
        """True if the mean is worse by no more than the margin, whatever the noise."""
        lost = self.baseline - self.arm if self.measure.higher_is_better else self.arm - self.baseline
        return lost <= self.margin

    @property
    def diverging_share(self) -> float:
        """Largest share of diverging seeds that the repeats do not rule out (95 %), if none of them diverged.

        1 - 0.05^(1/n): with a larger share, all of n seeds would be good in less than 5 % of comparisons.
        """
        return 1.0 - math.pow(1 - CONFIDENCE, 1 / self.seeds)

    @property
    def is_informative(self) -> bool:
        """False for an interval of the difference that includes 0 and is wider than `MOST_MARGINS`."""
        low, high = self.difference.low, self.difference.high
        return not low <= 0 <= high or high - low <= MOST_MARGINS * self.measure.margin_at(self.baseline)
