"""Results of a sweep for which a script may want the command to fail: those of its winner's repeats."""

from __future__ import annotations

from collections.abc import Mapping

from reports.comparison.fail_on import results_by_arm
from reports.sweep.sweep import Sweep


def results_of_winner(sweep: Sweep) -> Mapping[str, tuple[str, ...]]:
    """Return the label of the winner with each of the results in `fail_on.FAIL_ON` that it has.

    The controls, which only separate the effects of compiler and batch, do not count, but for *failed* all repeats do.
    A sweep is inconclusive without a winner, for a Pareto front, and if the winner was not repeated. A winner that is
    the base setting has no result: nothing has to be shown. For a throughput, *dearer* means that the whole interval
    lies below 1.
    """
    best, comparison = sweep.best, sweep.confirmation
    failed = {"failed": labels} if comparison and (labels := results_by_arm(comparison).get("failed")) else {}
    if best is None or sweep.spec.is_front:
        return {"inconclusive": ("the sweep",), **failed}
    if best.setting == sweep.base:
        return failed
    contrast = sweep.contrast_of(best.setting)
    if comparison is None or contrast is None:
        return {"inconclusive": (str(best.setting),), **failed}
    label = contrast.arm.label
    own = {result for result, labels in results_by_arm(comparison).items() if label in labels} - {"failed"}
    if sweep.spec.is_rate and contrast.verdict.outcome != "not comparable":
        own = (own & {"worse"}) | _of_rate(sweep)
    return {**dict.fromkeys(sorted(own), (label,)), **failed}


def _of_rate(sweep: Sweep) -> set[str]:
    ratio = sweep.interval_of(sweep.best) if sweep.best else None
    if ratio is None or ratio.low <= 1 <= ratio.high:
        return {"inconclusive"}
    return {"dearer"} if ratio.high < 1 else set()
