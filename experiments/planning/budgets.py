"""Worst case of planned jobs, and the check of a budget against it before anything is started. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from experiments.schema.experiment import Experiment
from judging.design import Design
from tracking.budgets.ledger import GroupBudget, with_limit
from tracking.groups.planned_job import PlannedJob
from training.contract.errors import InputError
from training.contract.plain_text import counted
from training.services.budget import (
    SHORTEST_LIMIT_SECONDS,
    Amount,
    Budget,
    amount_text,
    budget_text,
    certain_starts,
    longest_limit,
    overhead_seconds,
    total,
    worst_case,
)
from training.services.registry import service_name, services_with, traits_of

WITHOUT_PRICE = "Without a price, set max_billable_seconds, such as --max-billable-seconds 36000"


@dataclass(frozen=True, kw_only=True)
class WorstCase:
    jobs: int
    """Jobs without those that run again."""
    again: int
    """Jobs that run only because an equal job was disturbed."""
    amount: Amount
    """Cost if every job runs to its time limit and through its grace."""


def budget_of(experiment: Experiment, *, is_sweep: bool = False) -> GroupBudget:
    """Return the budget of an experiment. A sweep also has it under its earlier names. Raises InputError for both."""
    values: dict[str, float | None] = {}
    for name in ("max_usd", "max_billable_seconds"):
        value, earlier = getattr(experiment, name), getattr(experiment.sweep, name) if is_sweep else None
        if value is not None and earlier is not None:
            raise InputError(
                f"{name} {value:g} and sweep.{name} {earlier:g} are the same budget: remove sweep.{name}, its old name"
            )
        values[name] = earlier if value is None else value
    return GroupBudget(budget=Budget(**values), least_seconds=experiment.min_run_seconds)


def check_budget(jobs: Sequence[PlannedJob], group_budget: GroupBudget, *, at_most: int | None = None) -> list[str]:
    """Return sentences about the budget and the worst case of the jobs, which have their prices.

    `at_most` is the number of jobs if `jobs` is a sample of equal ones, as in a sweep. Raises InputError if a price is
    unknown, or if no job fits.
    """
    budget = group_budget.budget
    if not budget.is_limited:
        return []
    unknown = next((job.spec for job in jobs if job.dearest_price is None), None)
    if budget.max_usd is not None and unknown is not None:
        why = why_no_price(unknown.instance_type, *unknown.fallback_instance_types)
        raise InputError(f"max_usd is {budget.max_usd:g}, but {why}. {WITHOUT_PRICE}")
    for job in jobs:
        _check_one(job, group_budget)
    worst = worst_case_of(jobs)
    amount = worst.amount if at_most is None else worst_case_of(jobs[:1]).amount.times(at_most)
    cost = amount_text(amount, budget)
    if budget.allows(amount):
        return [f"Budget of {budget_text(budget)}: enough for the worst case of these jobs, {cost}."]
    count = counted(worst.jobs + worst.again if at_most is None else at_most, "job")
    sample = jobs if at_most is None else [jobs[0]] * at_most
    limits = {job.spec.max_run_seconds for job in jobs}
    each = f", each up to its limit of {limits.pop():,} s and {overhead_seconds(jobs[0].spec):.0f} s to stop"
    ways = _ways(sample, budget, is_sample=at_most is not None)
    started = certain_starts(list(map(worst_case_of_job, sample)), budget)
    return [
        f"Budget of {budget_text(budget)}: at worst these jobs cost {cost} ({count}{'' if limits else each}). "
        "Their time limits are lowered, and a job starts only if it certainly fits.",
        f"Even if every job runs to its time limit, {started} of {len(sample)} jobs start.",
        *([f"To fit all jobs: {', or '.join(ways)}."] if ways else []),
    ]


def why_no_price(*instance_types: str) -> str:
    """Return why a price is unknown, and how to set it."""
    traits = traits_of(service_name(instance_types[0]))
    if not traits.has_prices:
        return f"{traits.label} has no price: only instances of service {services_with('has_prices')} have one"
    table = json.dumps({"date": "2026-11-01", "usd_per_hour": dict.fromkeys(instance_types, 1.41)})
    return f"the price of {', '.join(instance_types)} is unknown: set aws.prices to a JSON file such as {table}"


def _check_one(job: PlannedJob, group_budget: GroupBudget) -> None:
    """Raise InputError for a job that does not fit even alone."""
    shortest = group_budget.least_seconds or SHORTEST_LIMIT_SECONDS
    limit = min(job.spec.max_run_seconds, math.ceil(shortest))
    least = worst_case_of_job(replace(job, spec=with_limit(job.spec, limit)))
    if group_budget.budget.allows(least):
        return
    pool = f" and {job.spec.keep_alive_seconds} s of its warm pool" if job.spec.keep_alive_seconds else ""
    instances = f" on {job.spec.instance_count} instances" if job.spec.instance_count > 1 else ""
    raise InputError(
        f'the budget of {budget_text(group_budget.budget)} is too small for one job of "{job.arm}": with '
        f"{limit} s of training, {overhead_seconds(job.spec):.0f} s to stop it{pool}{instances}, it may cost "
        f"{amount_text(least, group_budget.budget)}. Raise the budget, or lower min_run_seconds or "
        "machine.max_run_seconds"
    )


def _ways(jobs: Sequence[PlannedJob], budget: Budget, *, is_sample: bool) -> list[str]:
    """Return changes with which the worst case of all jobs is within the budget."""
    ways = []
    if limit := fitting_limit_of_all(jobs, budget):
        ways.append(f"--machine.max_run_seconds {limit}")
    repeats = 0 if is_sample else fitting_repeats(jobs, budget)
    if repeats and repeats <= max(job.repeat for job in jobs):
        ways.append(f"--compare.repeats {repeats}")
    worst = worst_case_of(jobs).amount
    if budget.max_usd is not None and worst.usd is not None and worst.usd > budget.max_usd:
        ways.append(f"--max_usd {math.ceil(100 * worst.usd) / 100:g}")
    if budget.max_billable_seconds is not None and worst.seconds > budget.max_billable_seconds:
        ways.append(f"--max_billable_seconds {math.ceil(worst.seconds)}")
    return ways


def worst_case_of_job(job: PlannedJob) -> Amount:
    """Return the most that a job can cost on the dearest of its instance types."""
    return worst_case(job.spec, job.dearest_price)


def worst_case_of(jobs: Sequence[PlannedJob]) -> WorstCase:
    """Return the most that jobs can cost if all of them run. A plan holds the most repeats, and repeats of disturbed
    jobs."""
    again = sum(job.is_again for job in jobs)
    return WorstCase(jobs=len(jobs) - again, again=again, amount=total(map(worst_case_of_job, jobs)))


def worst_case_by_look(jobs: Sequence[PlannedJob], design: Design) -> list[tuple[int, WorstCase]]:
    """Return for each look its repeats, and the most that all jobs up to that look can cost."""
    return [(look, worst_case_of([job for job in jobs if job.repeat < look])) for look in design.looks]


def fitting_repeats(jobs: Sequence[PlannedJob], budget: Budget) -> int:
    """Return the largest number of repeats of every arm with which all jobs fit into the budget; 0 if none fits."""
    repeats = range(max((job.repeat for job in jobs), default=-1) + 1, 0, -1)
    fits = (n for n in repeats if budget.allows(worst_case_of([job for job in jobs if job.repeat < n]).amount))
    return next(fits, 0)


def fitting_limit_of_all(jobs: Sequence[PlannedJob], budget: Budget) -> int:
    """Return the longest time limit, in seconds, that lets all jobs fit into the budget. Return 0 if none does.

    Jobs on different machines get an equal share of the budget each.
    """
    share = Budget(
        max_usd=None if budget.max_usd is None else budget.max_usd / len(jobs),
        max_billable_seconds=None if budget.max_billable_seconds is None else budget.max_billable_seconds / len(jobs),
    )
    limits = [min(job.spec.max_run_seconds, longest_limit(job.spec, job.dearest_price, share)) for job in jobs]
    return max(0, math.floor(min(limits) * (1 + 1e-9)))
