"""Expected and largest cost of a plan, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from experiments.dry_runs.expected_total import expected_of_search, expected_total, is_calibration
from experiments.dry_runs.spot_plan import spot_plan_lines
from experiments.planning.command_plan import CommandPlan, JobEntry
from experiments.planning.expected_cost import ExpectedCost
from experiments.planning.worst_case import WorstCase, worst_case_by_look
from reports.model.blocks import Definition
from reports.model.numbers import durations, money
from reports.model.wording import counted, joined
from training.contract.budget import GRACE_SECONDS, UPLOAD_SECONDS, Amount

UNKNOWN = "unknown: no earlier job or probe of this setting in MLflow; `trainfare probe` measures it"
UNKNOWN_SCRIPT = "unknown: no earlier job of this setting in MLflow; run `trainfare train` once, and plans use its time"

NEARLY = 0.9
"""Share of the time limit from which a job is expected to reach it: times of equal jobs differ by a tenth."""


def cost_definitions(plan: CommandPlan) -> Iterator[Definition]:
    """Yield the expected cost with its source, and the worst case with its rule."""
    if plan.jobs:
        yield Definition("Expected", "\n".join(_of_search(plan) if plan.search else _expected(plan)))
        if late := _late(plan.jobs):
            yield Definition("Warning", "\n".join(late))
    if on_spot := list(spot_plan_lines(plan.jobs)):
        yield Definition("On spot", "\n".join(on_spot))
    if plan.worst is not None:
        yield Definition("At most", "\n".join(_worst(plan, plan.worst)))
    if plan.budget:
        yield Definition("Budget", "\n".join(each.removeprefix("Budget of ") for each in plan.budget))


def _expected(plan: CommandPlan) -> Iterator[str]:
    unknown = [job.planned.arm for job in plan.jobs if job.expected is None]
    reason = UNKNOWN_SCRIPT if any(job.planned.script for job in plan.jobs) else UNKNOWN
    if len(unknown) == len(plan.jobs):
        yield reason
        return
    if not unknown:
        first, last = plan.first_jobs, [job for job in plan.jobs if not job.planned.is_again]
        if len(first) < len(last):
            yield f"{_total(first)} up to the first look, {_total(last)} in all"
        else:
            yield _total(last)
    sources: dict[str, list[str]] = {}
    for job in plan.jobs:
        sources.setdefault(job.expected.source if job.expected else reason, []).append(job.planned.arm)
    for source, arms in sources.items():
        labels = "" if len(sources) == 1 else f"{joined(list(dict.fromkeys(arms)))}: "
        yield f"{labels}{source if source == reason else f'from {source}'}"


def _of_search(plan: CommandPlan) -> Iterator[str]:
    expected = expected_of_search(plan)
    if expected is None:
        yield UNKNOWN
        return
    count, cost = expected
    yield f"{_cost(cost)} for all {counted(count, 'training run')}, if none is skipped"
    calibrations = sum(map(is_calibration, plan.jobs))
    yield "and each takes as long as the first one with the same compiler setting"
    if calibrations:
        yield f"{counted(calibrations, 'calibration')} not included"
    yield f"from {cost.source}"


def _late(jobs: Sequence[JobEntry]) -> list[str]:
    """Return a line for each time limit that some jobs are expected to reach."""
    arms: dict[int, list[str]] = {}
    for job in jobs:
        spec = job.planned.spec
        if job.expected and job.expected.seconds / spec.instance_count >= NEARLY * spec.max_run_seconds:
            arms.setdefault(spec.max_run_seconds, []).append(job.planned.arm)
    return [
        f"{joined(list(dict.fromkeys(labels)))}: the expected time is close to machine.max_run_seconds "
        f"({durations(limit)[0]}) or above it, and a job that reaches it is stopped"
        for limit, labels in arms.items()
    ]


def _total(jobs: Sequence[JobEntry]) -> str:
    cost = expected_total(jobs)
    return f"{_cost(cost)} ({counted(len(jobs), 'job')})" if cost else UNKNOWN


def _cost(cost: ExpectedCost) -> str:
    return durations(cost.seconds)[0] + ("" if cost.usd is None else f", {money(cost.usd)} USD")


def _worst(plan: CommandPlan, worst: WorstCase) -> Iterator[str]:
    again = f", {worst.again} of them only if a job is disturbed" if worst.again else ""
    yield f"{amount_text(worst.amount)} ({counted(worst.jobs + worst.again, 'job')}{again})"
    if plan.search is None and plan.design and len(plan.design.looks) > 1:
        [look, first], *_ = worst_case_by_look([job.planned for job in plan.jobs], plan.design)
        yield f"{amount_text(first.amount)} up to the first look, after {look} repeats"
    limits = list(dict.fromkeys(job.planned.spec.max_run_seconds for job in plan.jobs))
    if limits:
        limit = joined([durations(each)[0] for each in limits])
        most = f"{GRACE_SECONDS + UPLOAD_SECONDS:.0f} s"
        yield f"each job: at most {limit} (machine.max_run_seconds), and up to {most} to stop and upload"


def amount_text(amount: Amount) -> str:
    """Return an amount as billed time and, if its price is known, US dollars."""
    dollars = f", {money(amount.usd)} USD" if amount.usd else ""
    return f"{durations(amount.seconds)[0]} of billed time{dollars}"
