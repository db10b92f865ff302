"""The comparison of the arms of a group: is an arm cheaper than the baseline, at the same quality, for the same work?

The first of these rules that applies decides:

1. *not comparable*: the jobs did not do the same work (see `work_differences`) in a way that was not
   allowed, or a compiler ran although the setting says otherwise, or did not run.
2. *inconclusive*: all jobs train to a target, and one of the baseline's did not reach it.
3. *not cheaper*: all jobs train to a target, and one of the arm's did not reach it.
4. The rules of `_judge_looks`, by the last look at the arm."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Literal, get_args

import pandas as pd

from judging.break_even import BreakEven, Pace, break_even
from judging.cache_states import ColdStart
from judging.design import RULES, Design
from judging.intervals import Interval, ratio_intervals
from judging.quality import Measure, Quality
from judging.waves import Progress
from reports.comparison.checks import ArmCheck
from reports.model.numbers import counted, score
from tracking.recorded.arms import (
    BILLABLE,
    SECONDS,
    Arm,
    Currency,
    Target,
    arms_of,
    currency,
    finite,
    has_common_currency,
    image_version,
    job_target,
    split_trainings,
    target_of,
    uses_other_machines,
    work_unit,
)
from tracking.recorded.recorded_job import COSTS, STEADY, Job, job_of
from tracking.recorded.waves import measure_of, one_look, progress_of
from training.contract.errors import InputError, nearest

INCLUDES_ZERO = "but the interval includes 0 %"
"""Reason of a verdict on a cost that is not shown to differ."""
Outcome = Literal["cheaper", "cheaper, quality not shown", "not cheaper", "inconclusive", "not comparable"]

SEVERAL_GROUPS = (
    "Several groups are judged together: if groups were added until a setting looked cheaper, equal ones do in 5 % of "
    "reports on two groups, 9 % on three and 14 % on five."
)
_LED = "{}: if results led to this, such reports call equal settings different in {} % of cases instead of 5 %."
CHOSEN = _LED.format("The jobs were judged before or chosen", "6 to 13")
OTHER_BASELINE = _LED.format("The baseline was chosen afterwards", "5 to 17")
SAMPLES_TOLERANCE = 0.01
"""Largest relative difference in samples or tokens that counts as equal work, such as from a last, partial batch."""
Kind = Literal["data", "samples", "target", "image", "machine"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""Kinds of differences that `allow` accepts."""


Difference = tuple[Kind, str]
"""Difference in the work of two arms, with its values, such as `the samples seen differ (1,000 to 2,000)`."""


@dataclass(frozen=True)
class Verdict:
    outcome: Outcome
    reason: str
    """Reason for an inconclusive verdict or a missing ratio; empty if the ratio alone explains the verdict."""
    ratio: Interval | None = None
    """Cost, arm over baseline."""
    quality: Quality | None = None
    currency: Currency = SECONDS
    """Unit of the cost."""
    target: Target | None = None
    """Quality at which all jobs were to end."""
    misses_target: bool = False
    """True if a job of the arm did not reach the target, although all jobs of the baseline did."""
    despite: tuple[str, ...] = ()
    """Differences in the work that were allowed."""
    cautions: tuple[str, ...] = ()
    """Sentences on how often such verdicts are wrong, if the jobs or the baseline may have been chosen by results."""
    allowable: tuple[Kind, ...] = ()
    """Kinds of differences that must be allowed to compare the arms; empty if allowing them does not help."""
    cold: ColdStart | None = None
    """Extra cost of a cold compile cache. `ratio` is then for a warm one. None if all jobs started with one state."""
    bills: float | None = None
    """Observed ratio of the mean bills, if it lies outside of the ratio's interval: a few jobs took much longer."""
    unscored: int = 0
    """Successful jobs of the arm without a finite score, which count as lost quality."""


@dataclass(frozen=True)
class Contrast:
    arm: Arm
    verdict: Verdict
    speed_up: Interval | None
    """Ratio of steady samples (or tokens) per second, arm over baseline, with an interval that allows for several arms;
    None with fewer than two repeats on either side."""
    break_evens: dict[str, BreakEven]
    """Break-even by cache state, starting with the compared jobs' state; empty if the work is not comparable or
    counted in tokens."""


@dataclass(frozen=True)
class Comparison:
    """Arms, verdicts and the measure of quality."""

    group: str
    arms: tuple[Arm, ...]
    """The baseline first."""
    contrasts: tuple[Contrast, ...]
    """One per arm after the baseline."""
    measure: Measure | None
    design: Design | None = None
    """The looks that the group ran under; None if it did not run in waves."""
    progress: Progress | None = None
    """The looks so far, or the only look at jobs that did not run in waves; None if there is nothing to compare."""
    before_trainings: tuple[Job, ...] = ()
    """Calibrations and checks. Their cost is no part of the verdict."""
    checks: tuple[ArmCheck, ...] = ()
    seedless: tuple[str, ...] = ()
    """Labels of the arms of scripts that ignore their seed, see `seedless_arms`."""

    @property
    def rules(self) -> int:
        """Version of the rules that judge the arms."""
        return self.progress.design.rules if self.progress else RULES

    @property
    def baseline(self) -> Arm | None:
        return self.arms[0] if self.arms else None

    @property
    def jobs(self) -> list[Job]:
        return [job for arm in self.arms for job in arm.jobs]

    @property
    def billed_jobs(self) -> list[Job]:
        """All jobs of the group: calibrations, checks and the jobs of the arms."""
        return [*self.before_trainings, *self.jobs]

    @property
    def best(self) -> Contrast | None:
        """The cheapest of the arms that are cheaper than the baseline, or None."""
        cheaper = [c for c in self.contrasts if c.verdict.outcome == "cheaper" and c.verdict.ratio]
        return min(cheaper, key=lambda c: c.verdict.ratio.estimate if c.verdict.ratio else 1.0, default=None)

    @property
    def is_training(self) -> bool:
        """True if there is nothing to compare: a single job, which is not the first of a comparison."""
        return len(self.jobs) == 1 and self.design is None

    @property
    def is_pair(self) -> bool:
        """True for a look at two settings with one successful job each."""
        looks = self.progress.design.looks if self.progress else ()
        return looks == (1,) and len(self.arms) == 2 and all(arm.succeeded for arm in self.arms)

    def typical(self, arm: Arm, column: str) -> float | None:
        """Return the typical value of an arm, as tables, charts and metrics show it; None if it is unknown.

        The cost of an arm with failed jobs is its mean bill of a usable model.
        """
        values = arm.summary(column)
        bill = arm.mean_bill(column) if column in COSTS else None
        return bill or (values.typical if values else None)

    @property
    def billable_instance_seconds(self) -> float:
        """Billable instance seconds of all jobs with a billing record, failed ones included."""
        return sum(seconds for job in self.billed_jobs if (seconds := job.number(BILLABLE)) > 0)

    @property
    def has_scripts(self) -> bool:
        return any(job.is_script for job in self.jobs)

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
    `design`, which belongs to the only group of the jobs, the arms are judged at its looks. Jobs without one, a
    selection of jobs, and jobs with another baseline are judged at one look at all of them. Raises `InputError` for an
    unknown baseline.
    """
    trainings, others = split_trainings(table)
    arms = tuple(arms_of(trainings))
    cautions = [SEVERAL_GROUPS if table["group"].nunique() > 1 else CHOSEN] if is_selection else []
    if baseline and (chosen := _with_baseline(arms, baseline)) != arms:
        arms, cautions = chosen, [*cautions, OTHER_BASELINE]
    measure = measure_of([job for arm in arms for job in arm.jobs])
    progress = None
    if len(arms) > 1 and (design is None or is_selection or baseline):
        progress, design = one_look(design or Design(), arms), None
    elif arms and design:
        progress = progress_of(design, [arm.label for arm in arms], arms)
    unit = work_unit(*arms)
    rate = f"throughput_steady_{unit}_per_second"
    speed_ups = ratio_intervals([arm.positive(rate) for arm in arms[1:]], arms[0].positive(rate) if arms else [])
    contrasts = []
    for arm, speed_up in zip(arms[1:], speed_ups, strict=True):
        assert progress
        verdict = judge(arm, arms[0], measure, progress, allowed)
        verdict = replace(verdict, cautions=tuple(cautions if verdict.ratio else ()))
        evens = _break_evens(arm, arms[0]) if unit == "samples" and verdict.outcome != "not comparable" else {}
        contrasts.append(Contrast(arm, verdict, speed_up, evens))
    before = tuple(map(job_of, others.to_dict("records")))
    return Comparison(group, arms, tuple(contrasts), measure, design, progress, before)


def seedless_arms(arms: Sequence[Arm], curves: Mapping[str, pd.DataFrame]) -> tuple[str, ...]:
    """Return the labels of the arms in which two repeats of a script with different seeds have equal loss curves.

    `curves` are the `histories` tables of losses by run id. Two losses may be equal by chance.
    """
    labels = []
    for arm in arms:
        seeds: dict[str, set[str]] = {}
        for job in arm.succeeded:
            if job.run_id in curves and curves[job.run_id]["value"].nunique() > 2:
                losses = curves[job.run_id][["key", "step", "value"]].to_csv()
                seeds.setdefault(losses, set()).add(job.text.get("hp_seed") or f"repeat {job.repeat}")
        if any(len(each) > 1 for each in seeds.values()):
            labels.append(arm.label)
    return tuple(labels)


def _with_baseline(arms: tuple[Arm, ...], name: str) -> tuple[Arm, ...]:
    matches = [arm for arm in arms if name == arm.label or any(name in (job.name, job.run_id) for job in arm.jobs)]
    if not matches:
        labels = [arm.label for arm in arms]
        listed = ", ".join(f"'{label}'" for label in labels[:12])
        raise InputError(f"baseline '{name}' is not one of the arms {listed}.{nearest(name, labels)}")
    return (matches[0], *(arm for arm in arms if arm is not matches[0]))


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


def judge(
    arm: Arm, baseline: Arm, measure: Measure | None, progress: Progress, allowed: Set[Kind] = frozenset()
) -> Verdict:
    """Return the verdict on `arm` by the rules above; differences of the `allowed` kinds are accepted."""
    differences = work_differences(arm, baseline)
    refused = [text for kind, text in differences if kind not in allowed]
    if warnings := [*arm.setting_warnings, *baseline.setting_warnings]:
        return Verdict("not comparable", "; ".join([*warnings, *refused]))
    if refused:
        return Verdict(
            "not comparable", "; ".join(refused), allowable=tuple(dict.fromkeys(kind for kind, _ in differences))
        )
    unit, target = currency(arm, baseline), target_of(arm, baseline)
    verdict = _missed_target(arm, baseline, unit, target) if target else None
    verdict = verdict or _judge_looks(arm, baseline, measure, unit, target, progress)
    return replace(verdict, despite=tuple(text for _, text in differences))


def _judge_looks(
    arm: Arm, baseline: Arm, measure: Measure | None, unit: Currency, target: Target | None, progress: Progress
) -> Verdict:
    """Return the verdict by the last look at the arm. The first of these rules that applies decides."""
    design = progress.design
    look = next((looks[arm.label] for looks in reversed(progress.looks) if arm.label in looks), None)
    if look is None:
        has_ended = arm.label in progress.stopped
        return Verdict("inconclusive", _too_few(arm, baseline) if has_ended else "the first wave has not ended")
    kept, ratio = look.quality, look.ratio
    bills = None if ratio.low <= look.bills <= ratio.high else look.bills
    verdict = Verdict(
        "inconclusive", "", ratio, kept, unit, target, cold=look.cold, bills=bills, unscored=look.unscored
    )
    if look.cost_outcome == "dearer":
        return replace(verdict, outcome="not cheaper")
    if look.unscored:
        jobs = counted(len(arm.trained), "job")
        reason = f"and {look.unscored} of {jobs} ended without a finite {_loss_or(measure)}"
        return replace(verdict, outcome="not cheaper", reason=reason)
    if kept and kept.shown_beyond:
        return replace(verdict, outcome="not cheaper", reason=f"but the {kept.measure.label} is worse")
    if look.failure_note:
        return replace(verdict, reason=f"but {look.failure_note}")
    if look.stops == "no gain worth having":
        reason = f"and a gain of {100 * design.least_gain:g} % is unlikely"
        return replace(verdict, outcome="not cheaper", reason=reason)
    if look.cost_outcome == "undecided":
        if ratio.low <= 1 <= ratio.high:
            return replace(verdict, reason=INCLUDES_ZERO)
        return replace(verdict, reason=f"but the mean bill is {'no lower' if ratio.high < 1 else 'no higher'}")
    if target or (kept and kept.kept):
        return replace(verdict, outcome="cheaper")
    if kept is None:
        return replace(verdict, reason=_missing_quality([*arm.trained, *baseline.trained], measure))
    return replace(verdict, outcome="cheaper, quality not shown", reason=_not_shown(kept))


def _missing_quality(jobs: Sequence[Job], measure: Measure | None) -> str:
    if measure is None:
        return "but no quality is judged"
    missing = len(jobs) - len(finite([job for job in jobs if not job.diverged], measure.column))
    if not missing and measure.has_unit:
        return f"but the {measure.label} of one seed is not enough: a verdict needs at least two of each setting"
    if not missing:
        return (
            f"but the unit of {measure.column} is not known: add it to script.metrics, such as "
            f"{{{measure.column}: {{unit: fraction, better: {'higher' if measure.higher_is_better else 'lower'}}}}}, "
            "or set compare.quality_margin in that unit"
        )
    return f"but {missing} of {len(jobs)} jobs have no finite {_loss_or(measure)}"


def _loss_or(measure: Measure | None) -> str:
    label = measure.label if measure else "score"
    return label if label.endswith("loss") else f"loss or {label}"


def _not_shown(quality: Quality) -> str:
    label, margin, most = quality.measure.label, quality.margin, quality.most_lost
    if not quality.is_above_commonest and quality.commonest is not None:
        return f"but the {label} is not shown to be above {score(quality.commonest)}, the score of the commonest answer"
    if most <= margin:
        return f"but {counted(quality.seeds, 'seed')} are too few for an arm that learns in another way"
    sentence = f"but the {label} may be up to {score(most)} worse, and {score(margin)} is acceptable"
    if quality.repeats_to_show is None:
        return sentence
    return f"{sentence}: {counted(quality.repeats_to_show, 'repeat')} of each setting would show it"


def _missed_target(arm: Arm, baseline: Arm, unit: Currency, target: Target) -> Verdict | None:
    """Return the verdict on arms whose jobs did not all reach their target; None if they did."""
    sides: tuple[tuple[Arm, Outcome], ...] = ((baseline, "inconclusive"), (arm, "not cheaper"))
    for side, outcome in sides:
        if missed := not_reached(side):
            reason = f"{len(missed)} of {counted(len(side.trained), 'job')} of “{side.label}” did not reach {target}"
            return Verdict(outcome, reason, currency=unit, target=target, misses_target=side is arm)
    return None


def _too_few(arm: Arm, baseline: Arm) -> str:
    counts = [f"“{side.label}” has {_repeats(side)}" for side in (arm, baseline) if len(side.positive(BILLABLE)) < 2]
    if not counts:
        return "the arms have too few jobs that found the same state of the compile cache"
    return " and ".join(counts) + "; a verdict needs at least two on each side"


def _repeats(arm: Arm) -> str:
    n = len(arm.positive(BILLABLE))
    state = f" with a {arm.cache_state} cache" if arm.other_cache_states else ""
    return f"{n or 'no'} successful {'repeat' if n == 1 else 'repeats'}{state}"


def not_reached(arm: Arm) -> list[Job]:
    """Return the jobs, of any cache state, that succeeded or diverged before they reached their target."""
    return [job for job in arm.trained if not job.number("target_reached") > 0]


def work_differences(arm: Arm, baseline: Arm) -> list[Difference]:
    """Return the differences between the work of two arms; empty if either arm has no successful job.

    Every successful job counts, also one whose cache state differs from the jobs in the tables. Machines may
    differ if the arms request different ones, each arm's jobs ran on equal machines, and every job has a price. Samples
    may differ if all jobs were to end at the same target.
    """
    if not arm.succeeded or not baseline.succeeded:
        return []
    jobs = [*arm.succeeded, *baseline.succeeded]
    # The recorded library versions count if every job has them, or else the images'.
    version = _text_of("versions") if all(job.text.get("versions") for job in jobs) else image_version
    # Scripts and imported jobs have only the key of their channels.
    data = _text_of("rows_key" if all(job.text.get("rows_key") for job in jobs) else "data_key")
    differences = [
        *_differing(jobs, "data", "data", data),
        *_differing(jobs, "image", "image version", version),
        *_machines(arm, baseline),
    ]
    if target_of(arm, baseline):
        return differences
    if any(map(job_target, jobs)):
        targets = ", ".join(sorted({str(job_target(job) or "none") for job in jobs}))
        return [*differences, ("target", f"the target at which the training ends differs ({targets})")]
    return [*differences, *_amounts(jobs, work_unit(arm, baseline))]


def _amounts(jobs: Sequence[Job], unit: str) -> list[Difference]:
    samples = finite(jobs, unit)
    if not samples and all(job.is_script for job in jobs):
        return []  # assumed to be equal, which the report states
    if len(samples) < len(jobs):
        return [("samples", "some jobs did not record how many samples they saw")]
    # Samples that follow from the steps of a script's log are exact up to the last batch of each epoch.
    fewest = [job.number("samples_fewest") if job.number("samples_fewest") >= 0 else job.number(unit) for job in jobs]
    if max(fewest) - min(samples) > SAMPLES_TOLERANCE * max(samples):
        return [("samples", f"the {unit} seen differ ({min(samples):,.0f} to {max(samples):,.0f})")]
    return []


def _machines(arm: Arm, baseline: Arm) -> list[Difference]:
    sides = [arm.succeeded, baseline.succeeded]
    if precisions := _precisions(arm, baseline):
        return precisions
    for jobs in sides if uses_other_machines(arm, baseline) else [[*arm.succeeded, *baseline.succeeded]]:
        names = {"device": "device", "instance type": "instance_type"}
        differing = [_differing(jobs, "machine", name, _text_of(column)) for name, column in names.items()]
        if any(differing):
            return [difference for each in differing for difference in each]
    if not has_common_currency(arm, baseline):
        types = _listed([*arm.succeeded, *baseline.succeeded], _text_of("instance_type"))
        return [("machine", f"the instance type differs ({types}) and not every job has a price")]
    return []


def _precisions(arm: Arm, baseline: Arm) -> list[Difference]:
    """Return the difference in precision within an arm, or between the choices of `auto` on equal machines.

    Two arms may differ in precision if the experiment sets it, or if their machines differ.
    """
    used = _text_of("hp_precision")
    for jobs in (arm.succeeded, baseline.succeeded):
        if differing := _differing(jobs, "machine", "precision", used):
            return differing
    if uses_other_machines(arm, baseline):
        return []
    automatic = [job for job in (*arm.succeeded, *baseline.succeeded) if job.text.get("requested_precision") == "auto"]
    return _differing(automatic, "machine", "precision that `auto` chose", used)


def _text_of(column: str) -> Callable[[Job], str | None]:
    return lambda job: job.text.get(column)


def _differing(jobs: Sequence[Job], kind: Kind, name: str, value: Callable[[Job], str | None]) -> list[Difference]:
    differs = len({value(job) for job in jobs}) > 1
    return [(kind, f"the {name} differs ({_listed(jobs, value)})")] if differs else []


def _listed(jobs: Sequence[Job], value: Callable[[Job], str | None]) -> str:
    return ", ".join(sorted({value(job) or "unknown" for job in jobs}))
