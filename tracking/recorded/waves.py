"""The waves of a group's comparison: what its recorded jobs decide about the jobs that run next.

Launchers run the waves by it, and reports show and judge them by it, so both agree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from judging.design import Design
from judging.measures import COMMONEST, choose_measure
from judging.quality import Measure
from judging.result import CACHE_STATES, Result, costs
from judging.waves import Progress, Results, progress
from tracking.groups.plan_file import SCALES_COLUMN, common_scales, read_scales
from tracking.recorded.arms import (
    BILLABLE,
    DOLLARS,
    NOT_OF_THE_SETTING,
    Arm,
    currency,
    finite,
    misses_target,
    target_of,
)
from tracking.recorded.recorded_job import MEASURES, Job
from training.job.tasks import OWN_METRICS

_ALIKE = frozenset(
    {
        *("hp_seed", "hp_save_model", "hp_save_strategy", "hp_save_steps", "hp_bucket_lengths", "hp_allocator"),
        *("hp_compiler", "hp_compile_scope", "hp_compile_mode", "hp_compile_dynamic"),
        *("hp_kernels", "hp_sharding", "hp_adapter_save"),
    }
)
"""Settings that change the trained model by no more than rounding errors, given the same seed. Repeats differ in the
seed."""
_TRAINING = ("machine_devices", "machine_instance_count", "data_key")
"""Other columns that change the trained model. Arms with the same rows may cut or pack them differently."""
_NOT_SCORES = ("_runtime", "_time", "_per_second", "_samples")
"""Ends of the names of Trainer's times and sizes of an evaluation."""


def progress_of(design: Design, labels: Sequence[str], arms: Sequence[Arm]) -> Progress:
    """Return the progress of a comparison of the arms `labels`, the baseline first. `arms` are those with jobs."""
    arms = sorted((arm for arm in arms if arm.label in labels), key=lambda arm: labels.index(arm.label))
    # What is decided from all jobs would change with each later job, so the first wave decides it.
    first_wave = [job for arm in arms for job in _ended(arm) if int(job.repeat) < design.looks[0]]
    measure = None if target_of(*arms) else measure_of(first_wave)
    results = results_of(design, arms, measure)
    return progress(
        design,
        labels,
        results,
        measure=measure,
        paired=_paired(arms),
        resolution=_whole_costs(results),
        failing={arm.label for arm in arms if arm.deterministic_failure},
        started={(arm.label, int(job.repeat)) for arm in arms for job in arm.jobs if job.repeat.isdecimal()},
    )


def one_look(design: Design, arms: Sequence[Arm]) -> Progress:
    """Return the progress of jobs that did not run in waves, or are compared with another baseline than planned.

    All jobs that have ended count. Scores of equal seeds are compared only if all seeds are known.
    """
    design = replace(design, looks=(max(len(arm.jobs) for arm in arms),))
    measure = None if target_of(*arms) else measure_of([job for arm in arms for job in arm.jobs])
    results = results_of(design, arms, measure)
    numbered: dict[tuple[str, int], Result | None] = {}
    for arm in arms:  # jobs of any repeats, also of fewer than the other arms have
        own = [result for job, result in results.items() if job[0] == arm.label]
        numbered |= {(arm.label, at): own[at] if at < len(own) else None for at in range(design.looks[0])}
    has_seeds = all(each.seed is not None for each in results.values() if each and each.succeeded)
    return progress(
        design,
        [arm.label for arm in arms],
        numbered,
        measure=measure,
        paired=_paired(arms) if has_seeds else frozenset(),
        resolution=_whole_costs(results),
    )


def jobs_to_repeat(design: Design, arms: Sequence[Arm]) -> frozenset[tuple[str, int]]:
    """Return the arm and repeat of each job of which a second one counts, ended or not."""
    return frozenset((arm.label, int(job.repeat)) for arm in arms for job in (*arm.replaced, *_to_repeat(design, arm)))


def trains_alike(arm: Arm, baseline: Arm) -> bool:
    """Return True if two arms differ in nothing that changes what a seed trains, such as in the compiler alone."""
    return {_training_settings(job) for job in arm.jobs} == {_training_settings(job) for job in baseline.jobs}


def measure_of(jobs: Sequence[Job]) -> Measure | None:
    """Return the measure of quality that a comparison uses, see `choose_measure`; None if no successful job has one."""
    succeeded = [job for job in jobs if job.succeeded]
    own, scripts = ([job for job in succeeded if job.is_script == is_script] for is_script in (False, True))
    scales = common_scales([read_scales(job.text.get(SCALES_COLUMN)) for job in jobs])
    names = {metric.name for metric in OWN_METRICS}  # a script may log such a name with another meaning
    measure = choose_measure(
        [each for each in MEASURES if each.column not in names or finite(own, each.column)],
        lambda column: finite(own, column),
        lambda column: finite(scripts, column),
        scales,
        chosen={job.text.get(name) for job in own for name in ("hp_best_metric", "hp_target_metric")},
    )
    # A training loss may depend on the batch size. It is no measure if an evaluation logged scores.
    return None if measure and measure.column == "train_loss" and evaluation_scores(scripts) else measure


def evaluation_scores(jobs: Sequence[Job]) -> list[str]:
    """Return the columns of what evaluations of scripts logged, without their times and sizes."""
    columns = {column for job in jobs if job.is_script for column in job.numbers if column.startswith("eval_")}
    return sorted(column for column in columns if not column.endswith(_NOT_SCORES) and finite(jobs, column))


def results_of(design: Design, arms: Sequence[Arm], measure: Measure | None) -> Results:
    """Return the result of each job that has ended, except disturbed jobs of which a second one counts.

    The cost is billable instance seconds, or dollars between instance types. A job does not count if a person stopped
    it. Its cost does not count if it has no billing record. A job that ended before its target failed. Scores whose
    scale is unknown count as missing.
    """
    column = BILLABLE
    if arms and any(currency(arm, arms[0]) is DOLLARS for arm in arms[1:]):
        column = DOLLARS.column
    has_scale = measure is None or measure.has_unit or design.margin is not None
    results: dict[tuple[str, int], Result | None] = {}
    for arm in arms:
        unsettled = {id(job) for job in (*arm.replaced, *_to_repeat(design, arm))}
        for job in _ended(arm):
            if id(job) in unsettled:
                continue
            results[arm.label, int(job.repeat)] = _result(job, column, measure if has_scale else None)
    return results


def _result(job: Job, column: str, measure: Measure | None) -> Result | None:
    cost = job.compared(column)
    if job.succeeded and not misses_target(job):
        seed = job.text.get("hp_seed") or ""
        return Result(
            cost if cost > 0 else None,
            job.number(measure.column) if measure and not job.diverged else math.nan,
            repeat=int(job.repeat),
            cache=job.cache_state if job.cache_state in CACHE_STATES else "off",
            seed=int(seed) if seed.isdecimal() else None,
            commonest=job.number(measure.column + COMMONEST) if measure else math.nan,
        )
    if job.stopped or job.text.get("failure_class") in NOT_OF_THE_SETTING:
        return None
    return Result(cost if cost > 0 else 0.0, succeeded=False, repeat=int(job.repeat), diverged=job.diverged)


def _paired(arms: Sequence[Arm]) -> frozenset[str]:
    """Return the labels of the arms that train like the baseline."""
    return frozenset(arm.label for arm in arms if trains_alike(arm, arms[0]))


def _whole_costs(results: Results) -> float:
    """Return 1 if all costs are whole numbers, as SageMaker's seconds are; otherwise 0."""
    known = costs([result for result in results.values() if result])
    return float(bool(known) and all(cost == round(cost) for cost in known))


def _training_settings(job: Job) -> frozenset[tuple[str, str | float]]:
    changing = {
        name: value
        for name, value in {**job.text, **job.numbers}.items()
        if value is not None
        and value == value
        and (name in _TRAINING or (name.startswith("hp_") and name not in _ALIKE))
    }
    if changing.get("hp_padding", "max_length") != "max_length":
        changing["hp_padding"] = "other"  # batches have the same rows with all other kinds of padding
    return frozenset(changing.items())


def _ended(arm: Arm) -> list[Job]:
    return [job for job in arm.jobs if job.repeat.isdecimal() and not job.unfinished]


def _to_repeat(design: Design, arm: Arm) -> list[Job]:
    """Return the disturbed jobs that have no second one yet."""
    if design.when_disturbed == "keep":
        return []
    again = {job.repeat for job in arm.jobs if job.is_again}
    return [job for job in _ended(arm) if job.succeeded and job.disturbances and job.repeat not in again]


def repeat_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the repeats in a table from `job_tables.jobs`, numbered from 0 as in any comparison.

    In a sweep, number 0 is the winning trial, which does not count.
    """
    if "role" not in table.columns:
        return table[:0]
    rows = table[table["role"] == "confirmation"]

    def previous(number: Any) -> Any:
        return str(int(number) - 1) if isinstance(number, str) and number.isdecimal() and int(number) else number

    return rows.assign(repeat=[previous(each) for each in rows["repeat"]]) if "repeat" in rows else rows
