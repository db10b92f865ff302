"""Verdict on an arm of a comparison that ran in waves, by its last look.

The first of these rules that applies decides:

1. *inconclusive*: there is no look yet, or fewer than two jobs of either side succeeded.
2. *not cheaper*: the interval of the cost ratio lies above 1.
3. *not cheaper*: the quality is shown to be worse by more than the margin.
4. *inconclusive*: the arm fails too often (see `judging.failures`).
5. *not cheaper*: a gain worth having is ruled out.
6. *inconclusive*: the interval includes 1.
7. *inconclusive*: the quality was not measured, or its unit is not known.
8. *cheaper, quality not shown*: the cost is lower, but a loss of quality beyond the margin is not ruled out.
9. *cheaper*: the cost is lower and the quality is kept. Jobs that reached the same target kept it.
"""

from __future__ import annotations

from typing import Literal

from judging.quality import Quality
from judging.sequential import Look
from reports.model.numbers import score
from reports.model.wording import counted

INCLUDES_ZERO = "but the interval includes 0 %"
"""Reason of a verdict on a cost that is not shown to differ."""
Outcome = Literal["cheaper", "cheaper, quality not shown", "not cheaper", "inconclusive", "not comparable"]


def outcome_of(look: Look, missing: str, least_gain: float, *, has_target: bool) -> tuple[Outcome, str]:
    """Return the outcome and its reason by rules 2 to 9.

    `missing` says why the quality is not known; it is used only then. `least_gain` is the least gain worth having.
    """
    quality = look.quality
    if look.cost_outcome == "dearer":
        return "not cheaper", ""
    if quality and quality.shown_beyond:
        return "not cheaper", f"but the {quality.measure.label} is worse"
    if look.failure_note:
        return "inconclusive", f"but {look.failure_note}"
    if look.stops == "no gain worth having":
        return "not cheaper", f"and a gain of {100 * least_gain:g} % is unlikely"
    if look.cost_outcome == "undecided":
        return "inconclusive", INCLUDES_ZERO
    if has_target or (quality and quality.kept):
        return "cheaper", ""
    if quality is None:
        return "inconclusive", missing
    return "cheaper, quality not shown", _not_shown(quality)


def _not_shown(quality: Quality) -> str:
    label, margin, most = quality.measure.label, quality.margin, quality.most_lost
    assert margin is not None
    assert most is not None
    sentence = f"but the {label} may be up to {score(most)} worse, and {score(margin)} is acceptable"
    if quality.repeats_to_show is None:
        return sentence
    return f"{sentence}: {counted(quality.repeats_to_show, 'repeat')} of each setting would show it"
