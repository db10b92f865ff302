"""Expected and largest cost of a plan: totals, and the same in words. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from experiments.planning.budgets import WorstCase, worst_case_by_look
from experiments.planning.command_plan import CommandPlan, JobEntry
from experiments.planning.expected_cost import ExpectedCost
from reports.model.numbers import counted, durations, joined, money
from reports.model.report import Definition
from reports.probe.spot import spot_lines
from training.contract.budget import GRACE_SECONDS, UPLOAD_SECONDS, Amount

UNKNOWN = "unknown: no earlier job or probe of this setting in MLflow; `trainfare probe` measures it"
UNKNOWN_SCRIPT = "unknown: no earlier job of this setting in MLflow; run `trainfare train` once, and plans use its time"
NEARLY = 0.9
"""Share of the time limit from which a job is expected to reach it: times of equal jobs differ by a tenth."""


def expected_total(jobs: Sequence[JobEntry]) -> ExpectedCost | None:
    """Return the expected cost of the jobs, without those that run again; None if that of any is unknown."""
    costs = [job.expected for job in jobs if not job.planned.is_again]
    known = [cost for cost in costs if cost is not None]
    if not known or len(known) < len(costs):
        return None
    usd = None if any(cost.usd is None for cost in known) else sum(cost.usd or 0.0 for cost in known)
    sources = list(dict.fromkeys(cost.source for cost in known))
    return ExpectedCost(seconds=sum(cost.seconds for cost in known), usd=usd, source=joined(sources))


def expected_of_search(plan: CommandPlan) -> tuple[int, ExpectedCost] | None:
    """Return the most trainings of a sweep, and their cost if each costs as much as its compiler's first training.

    None if the cost of a first training is unknown. Calibrations are not counted.
    """
    first = [job for job in plan.jobs if not _is_calibration(job)]
    cost = expected_total(first)
    if cost is None or plan.search is None:
        return None
    trainings = plan.search.max_jobs - (len(plan.jobs) - len(first))
    factor = trainings / len(first)
    return trainings, replace(cost, seconds=cost.seconds * factor, usd=None if cost.usd is None else cost.usd * factor)


def arms_by(jobs: Sequence[JobEntry], text_of: Callable[[JobEntry], str]) -> dict[str, str]:
    """Return the arms of each distinct text about a job, as words. An empty text is left out."""
    arms: dict[str, dict[str, None]] = {}
    for job in jobs:
        if text := text_of(job):
            arms.setdefault(text, {})[job.planned.arm] = None
    return {text: joined(list(labels)) for text, labels in arms.items()}


def cost_definitions(plan: CommandPlan) -> Iterator[Definition]:
    """Yield the expected cost with its source, and the worst case with its rule."""
    if plan.jobs:
        yield Definition("Expected", "\n".join(_of_search(plan) if plan.search else _expected(plan)))
    if late := arms_by(plan.jobs, _late):
        yield Definition("Warning", "\n".join(f"{arms}: {text}" for text, arms in late.items()))
    if on_spot := arms_by(plan.jobs, lambda job: "\n".join(spot_lines(job.spot)) if job.spot else ""):
        yield Definition("On spot", "\n".join(_with_arms(on_spot)))
    if plan.worst is not None:
        yield Definition("At most", "\n".join(_worst(plan, plan.worst)))
    if plan.budget:
        yield Definition("Budget", "\n".join(each.removeprefix("Budget of ") for each in plan.budget))


def _with_arms(texts: dict[str, str]) -> list[str]:
    """Return the texts about jobs, with their arms if there are several texts."""
    return [text if len(texts) == 1 else f"{arms}: {text}" for text, arms in texts.items()]


def _is_calibration(job: JobEntry) -> bool:
    return job.planned.tags.get("platform.role") == "calibration"


def _expected(plan: CommandPlan) -> Iterator[str]:
    reason = UNKNOWN_SCRIPT if any(job.planned.script for job in plan.jobs) else UNKNOWN
    if all(job.expected for job in plan.jobs):
        first, every = plan.first_jobs, [job for job in plan.jobs if not job.planned.is_again]
        yield (
            f"{_total(first)} up to the first look, {_total(every)} in all"
            if len(first) < len(every)
            else _total(every)
        )
    yield from _with_arms(arms_by(plan.jobs, lambda job: f"from {job.expected.source}" if job.expected else reason))


def _of_search(plan: CommandPlan) -> Iterator[str]:
    expected = expected_of_search(plan)
    if expected is None:
        yield UNKNOWN
        return
    count, cost = expected
    yield f"{_cost(cost)} for all {counted(count, 'training run')}, if none is skipped"
    yield "and each takes as long as the first one with the same compiler setting"
    if calibrations := sum(map(_is_calibration, plan.jobs)):
        yield f"{counted(calibrations, 'calibration')} not included"
    yield f"from {cost.source}"


def _late(job: JobEntry) -> str:
    """Return a warning about the time limit if the job is expected to reach it, or an empty text."""
    spec = job.planned.spec
    if job.expected is None or job.expected.seconds / spec.instance_count < NEARLY * spec.max_run_seconds:
        return ""
    limit = durations(spec.max_run_seconds)[0]
    return (
        f"the expected time is close to machine.max_run_seconds ({limit}) or above it, and a job that reaches it is "
        "stopped"
    )


def _total(jobs: Sequence[JobEntry]) -> str:
    cost = expected_total(jobs)
    return f"{_cost(cost)} ({counted(len(jobs), 'job')})" if cost else UNKNOWN


def _cost(cost: ExpectedCost) -> str:
    return durations(cost.seconds)[0] + ("" if cost.usd is None else f", {money(cost.usd)} USD")


def _worst(plan: CommandPlan, worst: WorstCase) -> Iterator[str]:
    again = f", {worst.again} of them only if a job is disturbed" if worst.again else ""
    yield f"{_amount(worst.amount)} ({counted(worst.jobs + worst.again, 'job')}{again})"
    if plan.search is None and plan.design and len(plan.design.looks) > 1:
        [look, first], *_ = worst_case_by_look([job.planned for job in plan.jobs], plan.design)
        yield f"{_amount(first.amount)} up to the first look, after {look} repeats"
    if limits := dict.fromkeys(durations(job.planned.spec.max_run_seconds)[0] for job in plan.jobs):
        most = f"{GRACE_SECONDS + UPLOAD_SECONDS:.0f} s"
        yield f"each job: at most {joined(list(limits))} (machine.max_run_seconds), and up to {most} to stop and upload"


def _amount(amount: Amount) -> str:
    dollars = f", {money(amount.usd)} USD" if amount.usd else ""
    return f"{durations(amount.seconds)[0]} of billed time{dollars}"
