"""Hand-made jobs and their expected report, worked out on paper.

Unless a case states otherwise, a side's three values are v * (0.96, 1, 1 / 0.96). Their median and geometric mean are
v, and their logarithms deviate from log v by -0.0408220, 0 and 0.0408220, a variance of 2 * 0.0408220^2 / 2 =
0.00166643. For two such sides, the standard error is sqrt(2 * 0.00166643 / 3) = 0.0333310 with 4 degrees of freedom,
and t(0.975, 4) = 2.776445. The interval extends 0.0925417 to both sides of the ratio's logarithm: from 0.911611 to
1.096959 times the ratio.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reports.model.numbers import NONE

LOW, HIGH = 0.911611, 1.096959
NOT_DETERMINED = "not determined: the times are within the noise or not measured."


def spread(value: float) -> tuple[float, ...]:
    return (0.96 * value, value, value / 0.96)


@dataclass(frozen=True)
class Side:
    """The jobs of one arm: the billable seconds of each, and further data, as one value for all or one per job."""

    billed: Sequence[float]
    rates: Sequence[float] = (100.0,) * 4
    metrics: Mapping[str, float | Sequence[float]] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    failed: int = 0
    """Number of additional jobs, each of which failed after 7 s."""

    def add(self, tracked: Any, label: str) -> None:
        baseline = label == "none"
        for at, billed in enumerate(self.billed):
            metrics = {name: v[at] if isinstance(v, Sequence) else v for name, v in self.metrics.items()}
            more = {"params": self.params, "tags": self.tags}
            tracked.trained(label, at, billed, self.rates[at], baseline=baseline, metrics=metrics, losses=[], **more)
        for at in range(self.failed):
            seven = {"cost/billable_instance_seconds": 7.0}
            tracked.job(label, len(self.billed) + at, status="FAILED", baseline=baseline, metrics=seven)


BASELINE = Side(spread(100.0))
CHEAPER = "20 % fewer billable seconds than “none” (95 % interval: 12 % to 27 % fewer; 3 repeats against 3)"
NOT_CHEAPER = "25 % more billable seconds than “none” (95 % interval: 14 % to 37 % more; 3 repeats against 3)"
NO_SETTING_CHEAPER = "No setting is shown to be cheaper than “none”."
ANSWER = "“inductor” is cheaper: 20 % fewer billable seconds than “none”."
SLOW_START = {"time/compile_seconds": 39.0, "time/warmup_seconds": 1.0}
QUICK_START = {"time/compile_seconds": 0.0, "time/warmup_seconds": 10.0}
MACHINE = {"platform.instance_type": "ml.large", "platform.device": "1 x large"}


@dataclass(frozen=True, kw_only=True)
class Case:
    """Jobs and the expected content of their report."""

    arm: Side
    baseline: Side = BASELINE
    headline: str
    outcome: str
    sentence: str
    ratio: tuple[float, float, float] | None = None
    """Estimate and ends of the interval."""
    break_even: str = NOT_DETERMINED
    """Expected sentence in the terminal, or an empty text."""
    more: Sequence[str] = ()
    """Further sentences on the page and in the terminal."""
    cells: Mapping[str, str] = field(default_factory=dict)
    """Cells of the arm's row."""
    charts: Sequence[str] = ()
    """Figures in the charts."""


CASES = {
    # Equal scores of pairs spread by at least 0.003: 4.302653 * 0.003 / sqrt(3) = 0.0075.
    # 80 / 100 = 0.8: from 0.8 * 0.911611 = 0.729289 to 0.8 * 1.096959 = 0.877567. The jobs took 96 + 100 + 104.1667 +
    # 76.8 + 80 + 83.3333 = 540.3 s; 2,000 samples in 80 s are 25 per second.
    "cheaper": Case(
        arm=Side(spread(80.0)),
        headline=ANSWER,
        outcome="cheaper",
        sentence=f"{CHEAPER}.",
        ratio=(0.8, 0.729289, 0.877567),
        more=(
            "6 jobs took 540 billable instance seconds in all.",
            "Accuracy 0.900 against 0.900 (difference +0.000, 95 % interval −0.007 to +0.007).",
        ),
        cells={"billable": "80.0", "end to end": "25.0", "steady": "100", "training": "20.0", "repeats": "3"},
        charts=("80.0 −20 %", "inductor (−27 % to −12 %)", "100 +0.0 %"),
    ),
    # 125 / 100: from 1.139514 to 1.371199. 80 samples/s against 100 has the interval 0.729289 to 0.877567, so it is
    # shown to be slower. It also needs 40 s to start, against 10 s.
    "more expensive, slower and with a slower start: never": Case(
        arm=Side(spread(125.0), spread(80.0), SLOW_START),
        baseline=Side(spread(100.0), spread(100.0), QUICK_START),
        headline="No setting is cheaper than “none”.",
        outcome="not cheaper",
        sentence=f"{NOT_CHEAPER}.",
        ratio=(1.25, 1.25 * LOW, 1.25 * HIGH),
        break_even="never ahead of “none”: the steady rate is lower and the start takes no less.",
        cells={"billable": "125", "steady": "80.0", "compile + warm-up": "40.0", "end to end": "16.0"},
        charts=("125 +25 %", "inductor (+14 % to +37 %)", "80.0 −20 %"),
    ),
    # 0.95: from 0.866030 to 1.042111.
    "within the noise": Case(
        arm=Side(spread(95.0)),
        headline=NO_SETTING_CHEAPER,
        outcome="inconclusive",
        sentence="5.0 % fewer billable seconds than “none” (95 % interval: 13 % fewer to 4.2 % more; 3 repeats against "
        "3), but the interval includes 0 %.",
        ratio=(0.95, 0.866030, 1.042111),
    ),
    # The logarithms of the arm deviate by -1, 0 and 1, a variance of 1: error = sqrt(1 / 3) with 2 degrees of freedom,
    # t = 4.302653: 2.484138 to both sides. The least spread of the baseline, 0.001, hardly counts: it reaches 2.484135.
    # From 0.0917375 to 13.189808, "91 % fewer to 1,219 % more", says nothing.
    "too few repeats for their spread": Case(
        arm=Side([110.0 / math.e, 110.0, 110.0 * math.e]),
        baseline=Side([100.0] * 3),
        headline=NO_SETTING_CHEAPER,
        outcome="inconclusive",
        sentence="10 % more billable seconds than “none” (too few repeats for an interval; 3 repeats against 3).",
        ratio=(1.1, 0.0917375, 13.189808),
        cells={"billable": "110", "repeats": "3"},
    ),
    # The error comes from the baseline and the least spread of 0.001: sqrt(0.00166743 / 3) = 0.0235756 with 2.0024
    # degrees of freedom, t = 4.297714. The interval extends 0.101321: from 0.8 * 0.903643 to 0.8 * 1.106632.
    "no spread on one side": Case(
        arm=Side([80.0] * 3),
        headline=ANSWER,
        outcome="cheaper",
        sentence="20 % fewer billable seconds than “none” (95 % interval: 11 % to 28 % fewer; 3 repeats against 3).",
        ratio=(0.8, 0.722914, 0.885306),
    ),
    # Whole seconds have a resolution of 1/100, which is a variance of 0.01^2 / 12 on each side: error =
    # sqrt(2 * 8.33333e-6 / 3) = 0.00235702, times 2.776445 = 0.00654415: from 1.01 * 0.993477 to 1.01 * 1.006566.
    "no spread of whole seconds": Case(
        arm=Side([101.0] * 3),
        baseline=Side([100.0] * 3),
        headline="No setting is cheaper than “none”.",
        outcome="not cheaper",
        sentence="1.0 % more billable seconds than “none” (95 % interval: 0.3 % to 1.7 % more; 3 repeats against 3).",
        ratio=(1.01, 1.003412, 1.016631),
    ),
    "a loss that is not a number, and one that is infinite": Case(
        arm=Side(spread(80.0), metrics={"eval_loss": (0.4, math.nan, math.inf), "eval_accuracy": math.nan}),
        baseline=Side(spread(100.0), metrics={"eval_accuracy": math.nan}),
        headline="No setting is cheaper than “none”.",
        outcome="not cheaper",
        sentence=f"{CHEAPER}, and 2 of 3 jobs ended without a finite validation loss.",
        ratio=(0.8, 0.8 * LOW, 0.8 * HIGH),
        cells={"validation loss": "0.400"},
    ),
    # 300.1667 s of the baseline plus 3 times 7 s.
    "an arm that failed": Case(
        arm=Side([], failed=3),
        headline=NO_SETTING_CHEAPER,
        outcome="inconclusive",
        sentence="“inductor” has no successful repeats; a verdict needs at least two on each side.",
        break_even="",
        more=(
            "6 jobs took 321 billable instance seconds in all, 21.0 of them in 3 failed jobs.",
            "3 jobs of “inductor” failed.",
        ),
        cells={"billable": NONE, "steady": NONE, "repeats": "0", "failed": "3"},
    ),
    # The start takes 40 s against 10 s. The mean of 0.96, 1 and 1 / 0.96 is 1.000556, so each sample saves 1.000556 *
    # (1/100 - 1/200) = 0.00500278 s: 30 / 0.00500278 = 5,997 samples, after 40 + 5,997 * 0.00500278 = 70 s. Welch's t
    # of the times at 5,997 samples has 2.94 degrees of freedom, t = 3.2188; the times do not differ by more than that
    # from 5,127 to 7,221 samples.
    "ahead from a point on": Case(
        arm=Side(spread(80.0), spread(200.0), SLOW_START),
        baseline=Side(spread(100.0), spread(100.0), QUICK_START),
        headline=ANSWER,
        outcome="cheaper",
        sentence=f"{CHEAPER}.",
        break_even="ahead of “none” after 5,997 samples (95 % interval: 5,127 to 7,221), 70.0 s in.",
        cells={"steady": "200", "compile + warm-up": "40.0", "training": "10.0"},
    ),
    # Each seed loses 0.05, with a spread of at least 0.003: 4.302653 * 0.003 / sqrt(3) = 0.0075 to both sides.
    "cheaper and worse": Case(
        arm=Side(spread(80.0), metrics={"eval_accuracy": (0.84, 0.85, 0.86)}),
        baseline=Side(spread(100.0), metrics={"eval_accuracy": (0.89, 0.90, 0.91)}),
        headline="No setting is cheaper than “none”.",
        outcome="not cheaper",
        sentence=f"{CHEAPER}, but the accuracy is worse.",
        ratio=(0.8, 0.8 * LOW, 0.8 * HIGH),
        more=("Accuracy 0.850 against 0.900 (difference −0.050, 95 % interval −0.057 to −0.043).",),
        cells={"accuracy": "0.850"},
    ),
    # Half the seconds on a machine at 1.6 times the price: 0.20 USD against 0.25.
    "dollars of a different machine": Case(
        arm=Side(spread(50.0), metrics={"cost/usd": spread(0.2)}, tags=MACHINE),
        baseline=Side(spread(100.0), metrics={"cost/usd": spread(0.25)}),
        headline="“inductor” is cheaper: 20 % fewer dollars than “none”.",
        outcome="cheaper",
        sentence="20 % fewer dollars than “none” (95 % interval: 12 % to 27 % fewer; 3 repeats against 3).",
        ratio=(0.8, 0.8 * LOW, 0.8 * HIGH),
        more=("It takes 0.50 times as long: 50.0 s against 100 s, at 0.80 times the cost.",),
        cells={"cost": "0.2", "billable": "50.0"},
    ),
}  # fmt: skip
