"""Results of a comparison for which a script may want the command to fail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reports.comparison.comparison import Comparison, Contrast

FAIL_ON = ("dearer", "worse", "inconclusive", "failed")
"""Results that `--fail-on` accepts."""


def results_by_arm(comparison: Comparison) -> Mapping[str, tuple[str, ...]]:
    """Return the labels of the arms with each of the results in `FAIL_ON`; no entry for results that did not occur.

    *dearer*: the whole interval of the cost ratio lies above 1. *worse*: the quality is shown to be worse by more than
    the margin, or a job of the arm did not reach the target. *inconclusive*: the verdict is inconclusive or not
    comparable, or the quality is not shown. *failed*: a job failed.
    """
    matches = {
        "dearer": [each.arm.label for each in comparison.contrasts if _is_dearer(each)],
        "worse": [each.arm.label for each in comparison.contrasts if _is_worse(each)],
        "inconclusive": [each.arm.label for each in comparison.contrasts if _is_inconclusive(each)],
        "failed": [arm.label for arm in comparison.arms if arm.failed],
    }
    return {result: tuple(labels) for result, labels in matches.items() if labels}


def fail_sentences(results: Mapping[str, tuple[str, ...]], fail_on: frozenset[str]) -> Iterator[str]:
    """Yield a sentence for each result that occurred and that `fail_on` names."""
    for result, labels in results.items():
        if result in fail_on:
            arms = ", ".join(f"“{label}”" for label in labels)
            yield f"--fail-on {result}: {'a job failed of ' if result == 'failed' else ''}{arms}."


def _is_dearer(contrast: Contrast) -> bool:
    ratio = contrast.verdict.ratio
    return ratio is not None and ratio.low > 1


def _is_worse(contrast: Contrast) -> bool:
    quality = contrast.verdict.quality
    if quality is None:
        return contrast.verdict.misses_target
    return quality.shown_worse if quality.margin is None else quality.shown_beyond


def _is_inconclusive(contrast: Contrast) -> bool:
    return contrast.verdict.outcome in ("inconclusive", "not comparable", "cheaper, quality not shown")
