"""The comparison of a group's arms, on which all parts of its report are based."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from statistics import fmean

import pandas as pd

from judging.break_even import BreakEven, Pace, break_even
from judging.design import Design
from judging.intervals import Interval, ratio_intervals
from judging.quality import Measure
from judging.waves import Progress
from reports.comparison.arms import STEADY, Arm, Job, arms_of, finite
from reports.comparison.equal_work import BILLABLE, Kind
from reports.comparison.looks import measure_of, one_look, progress_of
from reports.comparison.verdict import Verdict, judge
from training.contract.errors import InputError, nearest

END_TO_END = "throughput_end_to_end_samples_per_second"
VISIBLE = 0.005
"""Relative difference between two ratios from which charts and tables explain it."""


@dataclass(frozen=True)
class Contrast:
    """One arm compared with the baseline."""

    arm: Arm
    verdict: Verdict
    speed_up: Interval | None
    """Ratio of steady samples per second, arm over baseline, with an interval that allows for several arms; None with
    fewer than two repeats on either side."""
    break_evens: dict[str, BreakEven]
    """Break-even by cache state, starting with the compared jobs' state; empty if the work is not comparable."""


@dataclass(frozen=True)
class Comparison:
    """Arms, verdicts and the measure of quality."""

    group: str
    arms: tuple[Arm, ...]
    """The baseline first."""
    contrasts: tuple[Contrast, ...]
    """One per arm after the baseline."""
    measure: Measure | None
    """The measure of quality."""
    design: Design | None = None
    """The looks that the group ran under; None if it did not run in waves."""
    progress: Progress | None = None
    """The looks so far, or the only look at jobs that did not run in waves; None by the first rules."""

    @property
    def rules(self) -> int:
        """Version of the rules that judge the arms."""
        return self.progress.design.rules if self.progress else 1

    @property
    def baseline(self) -> Arm | None:
        """The arm that the others are compared with."""
        return self.arms[0] if self.arms else None

    @property
    def jobs(self) -> list[Job]:
        """All jobs, by arm."""
        return [job for arm in self.arms for job in arm.jobs]

    @property
    def best(self) -> Contrast | None:
        """The cheapest of the arms that are cheaper than the baseline, or None."""
        cheaper = [c for c in self.contrasts if c.verdict.outcome == "cheaper" and c.verdict.ratio]
        return min(cheaper, key=lambda c: c.verdict.ratio.estimate if c.verdict.ratio else 1.0, default=None)

    @property
    def later_best(self) -> tuple[Contrast, int] | None:
        """The arm that is cheaper from the fewest trainings on, and their number. None if an arm is cheaper already, or
        if no arm of equal quality ever is."""
        later = [
            (contrast, caches.cheaper_from)
            for contrast in self.contrasts
            if (caches := contrast.verdict.caches) and caches.cheaper_from and _keeps_quality(contrast.verdict)
        ]
        return min(later, key=lambda each: each[1], default=None) if self.best is None else None

    def cost(self, arm: Arm, column: str) -> float | None:
        """Return the typical cost of a usable model of an arm, as tables and charts show it; None if it is unknown.

        By the rules of waves, failed jobs count towards the cost of the successful ones.
        """
        values = arm.summary(column)
        return values.typical * (arm.surcharge(column) if self.progress else 1.0) if values else None

    def unlike_shown(self, *columns: str) -> tuple[Contrast, ...]:
        """Return the contrasts whose ratio in one of these units of cost differs visibly from that of the shown costs.

        A ratio is that of the look that stopped the arm, or of trainings with cold and warm caches; the shown costs are
        those of all jobs of one cache state.
        """
        return tuple(each for each in self.contrasts if each.verdict.currency.column in columns and self._differs(each))

    def _differs(self, contrast: Contrast) -> bool:
        column, ratio = contrast.verdict.currency.column, contrast.verdict.ratio
        mine, others = (self.cost(arm, column) for arm in (contrast.arm, self.arms[0]))
        return bool(ratio and mine and others and abs(mine / others / ratio.estimate - 1) > VISIBLE)

    @property
    def billable_instance_seconds(self) -> float:
        """Billable instance seconds of all jobs with a billing record, failed ones included."""
        return sum(seconds for job in self.jobs if (seconds := job.number(BILLABLE)) > 0)

    @property
    def has_scripts(self) -> bool:
        """True if any job is a user's own script, measured from outside."""
        return any(job.is_script for job in self.jobs)

    @property
    def assumes_equal_work(self) -> bool:
        """True if no job recorded how many samples it saw, so equal work has to be assumed."""
        jobs = [job for arm in self.arms for job in arm.succeeded]
        return len(self.arms) > 1 and bool(jobs) and not finite(jobs, "samples")

    @property
    def loss_column(self) -> str:
        """Column of the final loss in the table: the validation loss if any job has one, or else the training loss."""
        has_eval = any(arm.values("eval_loss") for arm in self.arms)
        return "eval_loss" if has_eval else "train_loss" if any(a.values("train_loss") for a in self.arms) else "loss"


def compare(
    table: pd.DataFrame,
    group: str,
    *,
    baseline: str | None = None,
    allowed: Set[Kind] = frozenset(),
    design: Design | None = None,
    is_selection: bool = False,
) -> Comparison:
    """Return the comparison of the jobs in a table from `job_tables.jobs`.

    `baseline` is the label of the arm that the others are compared with, or the name or run id of one of its jobs. With
    None, it is the arm whose jobs are marked as the baseline. Differences of the `allowed` kinds are accepted. With a
    `design`, the arms are judged at its looks, or at one look at all jobs if another baseline is chosen. A selection of
    jobs is judged at one look too. All other jobs are judged by the first rules. `design` is that of the only group of
    the jobs. Raises `InputError` for an unknown baseline.
    """
    arms = tuple(arms_of(table))
    arms = _with_baseline(arms, baseline) if baseline else arms
    measure = measure_of([job for arm in arms for job in arm.jobs])
    progress = None
    if len(arms) > 1 and (is_selection or (design and baseline)):
        progress, design = one_look(design or Design(), arms, has_seeds=design is not None), None
    elif arms and design:
        progress = progress_of(design, [arm.label for arm in arms], arms)
    speed_ups = ratio_intervals([arm.positive(STEADY) for arm in arms[1:]], arms[0].positive(STEADY) if arms else [])
    contrasts = tuple(
        _contrast(arm, arms[0], judge(arm, arms[0], measure, allowed, progress), speed_up)
        for arm, speed_up in zip(arms[1:], speed_ups, strict=True)
    )
    return Comparison(group, arms, contrasts, measure, design, progress)


def extra_seconds(arm: Arm, state: str) -> float | None:
    """Return the mean billable instance seconds of the jobs with cache state `state` minus the compared jobs' mean.

    None if either side has no billing record.
    """
    others = [seconds for job in arm.other_cache_states.get(state, []) if (seconds := job.number(BILLABLE)) > 0]
    compared = arm.positive(BILLABLE)
    return fmean(others) - fmean(compared) if others and compared else None


def _keeps_quality(verdict: Verdict) -> bool:
    return verdict.target is not None or (verdict.quality is not None and verdict.quality.kept)


def _with_baseline(arms: tuple[Arm, ...], name: str) -> tuple[Arm, ...]:
    matches = [arm for arm in arms if name == arm.label or any(name in (job.name, job.run_id) for job in arm.jobs)]
    if not matches:
        labels = [arm.label for arm in arms]
        listed = ", ".join(f"'{label}'" for label in labels[:12])
        raise InputError(f"baseline '{name}' is not one of the arms {listed}.{nearest(name, labels)}")
    return (matches[0], *(arm for arm in arms if arm is not matches[0]))


def _contrast(arm: Arm, baseline: Arm, verdict: Verdict, speed_up: Interval | None) -> Contrast:
    comparable = verdict.outcome != "not comparable"
    return Contrast(arm, verdict, speed_up, _break_evens(arm, baseline) if comparable else {})


def _break_evens(arm: Arm, baseline: Arm) -> dict[str, BreakEven]:
    if not any(job.number(STEADY) > 0 and job.setup_seconds >= 0 for job in (*arm.succeeded, *baseline.succeeded)):
        return {}  # scripts do not record their compile and warm-up time
    states = [arm.cache_state, *arm.other_cache_states] if arm.cache_state else []
    mine, others = _paces(arm), _paces(baseline)
    return {state: break_even(mine, others, state, baseline.cache_state or "") for state in states if state}


def _paces(arm: Arm) -> list[Pace]:
    """Return the paces of the successful jobs that recorded their compile and warm-up time and their steady rate."""
    return [
        Pace(job.setup_beyond_steady_seconds, 1 / job.number(STEADY), job.cache_state)
        for job in arm.succeeded
        if job.number(STEADY) > 0 and job.setup_seconds >= 0
    ]
