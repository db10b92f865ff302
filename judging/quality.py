"""Quality metrics, and the check that an arm's quality is no worse than the baseline's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from judging.intervals import CONFIDENCE, Interval, difference_interval

Unit = Literal["fraction", "percent", "number"]
"""Unit of a metric: 0 to 1, 0 to 100, or any other."""
MOST_MARGINS = 20
"""Width of the interval of a difference, in margins, above which it says nothing, if it includes 0. For an accuracy,
this is 0.6."""


_TOLERANCES: dict[Unit, tuple[float, float]] = {
    "fraction": (0.01, 0.03),
    "percent": (1.0, 3.0),
    "number": (0.02, 0.05),
}
"""Tolerance by the first rules, and margin of the metrics in each unit: absolute for fractions and percent,
relative to the baseline's mean for other numbers. docs/judging.md has the reasons."""


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
    """False if the unit of the values is not known, so that tolerance and margin cannot be used."""

    @property
    def label(self) -> str:
        """Name with the unit, if it is known."""
        return f"{self.name} (%)" if self.unit == "percent" and self.has_unit else self.name

    @property
    def is_relative(self) -> bool:
        """True if tolerance and margin are relative to the baseline's mean."""
        return self.unit == "number"

    @property
    def margin(self) -> float:
        """Largest acceptable loss of quality."""
        return _TOLERANCES[self.unit][1]

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
    difference: Interval | None
    """Arm minus baseline with its interval; None below two repeats a side."""
    kept: bool
    """True if the quality is kept, by the rules of the comparison."""
    shown_worse: bool
    """True if it is not kept and the repeats show that the arm is worse."""
    shown_beyond: bool = False
    """True if the repeats show that the arm is worse by more than the margin."""
    margin: float | None = None
    """Largest acceptable loss, in the metric's unit; None by the first rules."""
    most_lost: float | None = None
    """Largest loss that the repeats do not rule out, in the metric's unit; None by the first rules."""
    repeats_to_show: int | None = None
    """Repeats of an arm that would show, in 80 %, that the quality is kept; None if no number would, and by the first
    rules."""
    seeds: int = 0
    """Seeds of the arm that were scored."""
    is_paired: bool = False
    """True if the arm trains like the baseline, so that the scores of equal seeds were compared."""
    commonest: float | None = None
    """Score of always answering the commonest class, if it is known."""
    is_above_commonest: bool = True
    """False if the arm is not shown to score better than `commonest`. Its quality is then not kept."""

    @property
    def diverging_share(self) -> float:
        """Largest share of diverging seeds that the repeats do not rule out (95 %), if none of them diverged.

        1 - 0.05^(1/n): with a larger share, all of n seeds would be good in less than 5 % of comparisons.
        """
        return 1 - (1 - CONFIDENCE) ** (1 / self.seeds) if self.seeds else 1.0

    @property
    def is_informative(self) -> bool:
        """False if the difference has no interval, or one that includes 0 and is wider than `MOST_MARGINS`."""
        difference = self.difference
        if difference is None or not difference.low <= 0 <= difference.high:
            return difference is not None
        return difference.high - difference.low <= MOST_MARGINS * self.measure.margin_at(self.baseline)


def compare_quality(measure: Measure, arm: Sequence[float], baseline: Sequence[float]) -> Quality:
    """Compare the quality of an arm's repeats with the baseline's; neither may be empty.

    Quality is *kept* if the arm's mean is no worse than the baseline's by more than the measure's tolerance: 0.01 for
    accuracy and macro F1, one point for scores in percent, 2 % of the baseline's mean for a loss. If it is not kept,
    the interval of the difference (Welch's t) decides: it excludes 0 and the arm is *shown worse*, or the difference
    could be noise. In neither case can the arm count as cheaper: with two repeats the interval is wide, and an interval
    that covers 0 then proves nothing.
    """
    sign = 1 if measure.higher_is_better else -1
    difference = difference_interval(arm, baseline)
    tolerance = _TOLERANCES[measure.unit][0] * (abs(fmean(baseline)) if measure.is_relative else 1)
    kept = sign * (fmean(arm) - fmean(baseline)) >= -tolerance
    excludes_zero = difference is not None and (difference.high < 0 if sign > 0 else difference.low > 0)
    return Quality(measure, fmean(arm), fmean(baseline), difference, kept, not kept and excludes_zero)
