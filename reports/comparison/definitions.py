"""Definitions of a comparison's figures: how each number is measured."""

from __future__ import annotations

from reports.comparison.comparison import Comparison
from reports.model.blocks import Definition, Definitions
from reports.model.report import Section

MEASURED = "How each number is measured"
"""Title of the section with the definitions, in every kind of report."""
SCRIPTS = Definition(
    "Scripts",
    "Measured from outside. The service records when downloading, the script and uploading start and end. Losses, "
    "scores, steps, samples and training seconds are read from the script's output, at the time of each line. Samples "
    "are the steps times the batch size where the log does not show them. The steady samples/s leave out the first "
    "tenth of the steps and the evaluations.",
)
STEADY_RATE = Definition(
    "Steady samples/s",
    "Samples between the end of warm-up and the last step, divided by the wall-clock time between the two. Includes "
    "data loading and counts all devices.",
)
END_TO_END_RATE = Definition("End-to-end samples/s", "All samples divided by the billable seconds.")
_TIMES = (
    Definition(
        "Billable seconds",
        "Wall-clock time from the start of downloading to the end of uploading, as the service bills it. Provisioning "
        "is not included. Multiplied by the instances of a job, they are billable instance seconds, on which the "
        "verdict is based. Between different instance types the verdict is based on dollars, which are shown only "
        "where a price is known.",
    ),
    STEADY_RATE,
    END_TO_END_RATE,
    Definition(
        "Compile + warm-up",
        "Seconds before the steady state. A warm compile cache shortens them, so jobs with different cache states are "
        "never averaged together: an arm's figures come from the cache state of most of its repeats.",
    ),
    Definition(
        "Training time",
        "Time of Trainer's whole loop, as Trainer reports it: compile, warm-up, steps and evaluations, the same as in "
        "published figures. “Training” in the table is the time of the steady steps only.",
    ),
)
_JUDGEMENT = (
    Definition(
        "Interval",
        "Ratio of geometric means with its 95 % interval: Welch's t on the logarithms, so each side has its own "
        "spread. Intervals of the cost are not adjusted for the number of arms. At most 5 in 100 comparisons of two "
        "equal settings say cheaper or not cheaper, but with many arms one false verdict becomes likely. Before an "
        "important decision, compare the best arm with the baseline again.",
    ),
    Definition(
        "Verdict",
        "“Cheaper”: the whole interval is below 1 and the quality is kept. “Not cheaper”: the whole interval is at or "
        "above 1. “Inconclusive”: anything else, including fewer than two successful repeats. “Not comparable”: the "
        "data, the image's versions or the target differ; the samples seen differ by more than 1 %; the jobs of one "
        "arm ran on different machines; arms on different instance types have no price; or a compiler did not run as "
        "the setting says. Differences that were allowed are listed with the verdict.",
    ),
)
_WAVES = (
    Definition(
        "Interval",
        "Cost, arm over baseline, at the look that stopped the arm. With three repeats it is the ratio of geometric "
        "means with Welch's t on the logarithms; from five repeats on the ratio of the medians of all pairs' means "
        "(Hodges and Lehmann), with the interval of Mann and Whitney's exact test. The typical costs in tables and "
        "charts are the same statistics, so their ratio is the estimate. The intervals of all looks and arms hold "
        "together in 95 %. Failed jobs count towards the cost of the successful ones. The best of several arms looks "
        "a little better than it is, because it was chosen for looking good; the estimate is not corrected for that.",
    ),
    Definition(
        "Verdict",
        "“Cheaper”: the whole interval is below 1, and the quality is shown to be kept. “Cheaper, quality not shown”: "
        "the cost is lower, but a loss of quality beyond the margin is not ruled out. “Not cheaper”: the whole "
        "interval is above 1, a gain worth having is ruled out, or the quality is shown to be worse. “Inconclusive”: "
        "anything else, such as an arm of which too many jobs failed. “Not comparable”: the data, the image's versions "
        "or the target differ; the samples seen differ by more than 1 %; the jobs of one arm ran on different "
        "machines; arms on different instance types have no price; or a compiler did not run as the setting says. "
        "Differences that were allowed are listed with the verdict.",
    ),
)
_TARGET = Definition(
    "To a target",
    "Jobs that train to the same target and reach it did equal work and kept the quality, although they may have seen "
    "different numbers of samples. An arm with a job that did not reach the target is not cheaper.",
)
_BREAK_EVEN = Definition(
    "Break-even",
    "N* = (C_arm − C_base) / (1/T_base − 1/T_arm). T is the steady samples/s. C is the compile and warm-up seconds, "
    "less what the samples of the warm-up take at the steady rate: they are work that is done. The 95 % interval "
    "(Fieller) holds every number of samples after which the repeats do not show which arm is ahead. It has no end "
    "if the steady gain is within the noise.",
)
_KEPT_BY_MEAN = (
    "Kept if the mean is no worse than the baseline's by more than 0.01 (accuracy, macro F1, fractions), 1 point (F1, "
    "exact match and others in %) or 2 % (losses, and metrics in another unit)."
)
_KEPT_BY_BOUND = (
    "Kept if the largest loss that the repeats do not rule out (one-sided 95 % over all looks) is within the margin: "
    "compare.quality_margin, or 0.03 (accuracy, macro F1, fractions), 3 points (F1, exact match and others in %) or "
    "5 % (losses, and metrics in another unit). The unit of a script's metric is the one that its experiment declares. "
    "Arms that differ in nothing that changes the training, such as in the compiler alone, are compared seed by seed."
)


def measured_section(comparison: Comparison) -> Section:
    """Return the definitions of the figures that this comparison has."""
    measure = f"Measured by {comparison.measure.label}. " if comparison.measure else ""
    kept = _KEPT_BY_BOUND if comparison.progress else _KEPT_BY_MEAN
    quality = Definition("Quality", measure + kept)
    has_target = any(contrast.verdict.target for contrast in comparison.contrasts)
    definitions = (
        *([SCRIPTS] if comparison.has_scripts else []),
        *_TIMES,
        *(_WAVES if comparison.progress else _JUDGEMENT),
        quality,
        *([_TARGET] if has_target else []),
        Definition("Rules", f"Judged by version {comparison.rules} of the rules. docs/measuring.md lists them."),
        _BREAK_EVEN,
    )
    return Section(MEASURED, (Definitions(definitions),))
