"""Non-inferiority: is it shown that an arm's quality is no worse than the baseline's by more than a margin?

That two means are close proves nothing: with few repeats, an arm that is clearly worse is often close by chance. So the
bound decides: the largest loss of quality that the repeats do not rule out (Schuirmann 1987; FDA guidance on
non-inferiority trials, 2016).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, variance

from scipy.special import stdtrit

from judging.intervals import Interval, difference, mean_estimate
from judging.quality import Measure, Quality

ERROR = 0.05
"""Probability of passing an arm that is worse by the margin, over all looks together."""
POWER = 0.8
"""Probability with which `Quality.repeats_to_show` repeats show that an arm of the measured quality is good enough."""
_MOST_REPEATS = 1_000
_LEAST_SPREAD = 0.1
"""Least standard deviation of the scores, as a share of the margin: a few equal scores do not prove that all are."""


def assess_quality(
    measure: Measure,
    arm: Sequence[float],
    baseline: Sequence[float],
    *,
    level: float = ERROR,
    margin: float | None = None,
    is_paired: bool = False,
    commonest: float = math.nan,
) -> Quality | None:
    """Test the scores of an arm's repeats against the baseline's; None below two scores on a side.

    With `is_paired`, scores at the same place belong to the same seed, and their differences count: two settings that
    train alike differ far less with the same seed than one setting does between seeds.

    `level` is the one-sided significance level. `margin` is the largest acceptable loss in the metric's unit; None
    takes the measure's own.

    `commonest` is the score of a model that always answers the commonest class. An arm keeps its quality only if its
    mean score is shown to be above it, with the same level (Student's t).
    """
    if min(len(arm), len(baseline)) < 2:
        return None
    limit = measure.margin_at(fmean(baseline)) if margin is None else margin
    least = _LEAST_SPREAD * limit
    mine, others = (mean_estimate(side, least_spread=least) for side in (arm, baseline))
    if is_paired:
        change = mean_estimate([one - other for one, other in zip(arm, baseline, strict=True)], least_spread=least)
    else:
        change = difference(mine, others)
    least_change, most_change = change.ends(1 - 2 * level)
    lost = (-most_change, -least_change) if measure.higher_is_better else (least_change, most_change)
    low, high = mine.ends(1 - 2 * level)
    is_above = not math.isfinite(commonest) or (low > commonest if measure.higher_is_better else high < commonest)
    return Quality(
        measure,
        mine.value,
        others.value,
        Interval(change.value, *change.ends(), len(arm), len(baseline)),
        kept=lost[1] <= limit and is_above,
        shown_beyond=lost[0] > limit,
        margin=limit,
        most_lost=lost[1],
        repeats_to_show=_repeats_to_show(measure, arm, baseline, limit, is_paired=is_paired),
        seeds=len(arm),
        is_paired=is_paired,
        commonest=commonest if math.isfinite(commonest) else None,
        is_above_commonest=is_above,
    )


def _repeats_to_show(
    measure: Measure, arm: Sequence[float], baseline: Sequence[float], margin: float, *, is_paired: bool
) -> int | None:
    """Return the repeats of an arm that would show the quality if mean and spread stay as measured; None if none do."""
    differences = [mine - other for mine, other in zip(arm, baseline, strict=is_paired)]
    spread = math.sqrt(variance(differences) if is_paired else variance(arm) + variance(baseline))
    change = fmean(arm) - fmean(baseline)
    room = margin + (change if measure.higher_is_better else -change)
    for repeats in range(2, _MOST_REPEATS + 1):
        freedom = repeats - 1 if is_paired else 2 * repeats - 2
        quantiles = float(stdtrit(freedom, 1 - ERROR)) + float(stdtrit(freedom, POWER))
        if quantiles * spread / math.sqrt(repeats) <= room:
            return repeats
    return None
