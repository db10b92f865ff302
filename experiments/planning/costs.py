"""Costs of planned jobs: expected, from earlier jobs on the tracking server, and in the worst case. Pure.

A budget is checked against the worst case before anything is started.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from experiments.planning.inputs import Inputs
from experiments.planning.load import MIN_STEPS
from experiments.schema.experiment import Experiment
from judging.summaries import typical
from tracking.budgets.ledger import GroupBudget, with_limit
from tracking.groups.planned_job import BEFORE_TRAININGS, PlannedJob
from tracking.recorded.recorded_job import STEADY, Job, running_seconds
from training.contract.errors import InputError
from training.contract.plain_text import counted
from training.contract.price import instance_seconds, instances_of
from training.services.budget import (
    SHORTEST_LIMIT_SECONDS,
    Amount,
    Budget,
    amount_text,
    budget_text,
    certain_starts,
    overhead_seconds,
    total,
    worst_case,
)
from training.services.registry import service_name, services_with, traits_of
from training.staging.tokens.staged import Staged

PROBE_FRACTION = 10
"""Largest part of a training that a probe without `probe.samples` takes, as in training/job/estimating/probe.py."""


@dataclass(frozen=True, kw_only=True)
class JobSize:
    """Work of one job."""

    steps: int
    """Optimizer steps; for a probe, at most."""
    samples: int
    """Training samples; for a probe, at most."""
    tokens: int
    """Tokens of these samples, without padding."""


def size_of(experiment: Experiment, inputs: Inputs) -> JobSize | None:
    """Return the work of a job, or None for a script or a calibration, whose work is not known before they run.

    A process counts its batches as Trainer does: the rows that do not fill a batch on every device make one more batch,
    unless `drop_last`, and the batches that do not fill an optimizer step make one more step.
    """
    if not isinstance(inputs, Staged) or experiment.calibration is not None:
        return None
    rows, accumulated = inputs.train_rows, experiment.gradient_accumulation_steps
    batch = experiment.global_batch_size // accumulated
    batches = rows // batch if experiment.drop_last else math.ceil(rows / batch)
    steps_per_epoch = max(1, math.ceil(batches / accumulated))
    steps = experiment.max_steps or math.ceil((experiment.epochs or 0.0) * steps_per_epoch)
    if experiment.probe is not None:
        limit = experiment.probe.samples
        most = math.ceil(limit / experiment.global_batch_size) if limit else math.ceil(steps / PROBE_FRACTION)
        steps = min(steps, max(most, experiment.steady_after_steps + MIN_STEPS))
    whole_epochs, rest = divmod(steps, steps_per_epoch)
    in_epoch = min(rows, steps_per_epoch * experiment.global_batch_size)
    samples = whole_epochs * in_epoch + min(rest * experiment.global_batch_size, in_epoch)
    tokens = inputs.description.train.tokens
    mean = inputs.lengths.mean_tokens if tokens is None else tokens / rows
    return JobSize(steps=steps, samples=samples, tokens=round(samples * mean))


SECONDS = "cost_billable_seconds"
PROJECTED = "projected_billable_seconds"
SETUP_COLUMNS = (
    *("hp_compiler", "hp_compile_scope", "hp_compile_mode", "hp_compile_dynamic"),
    *("hp_batch_size", "hp_max_length", "hp_precision", "hp_padding", "hp_model"),
)
"""Parameters on which the speed of a step and the time before the first step depend."""
WITHOUT_EFFECT_ON_COST = frozenset(
    {"seed", "learning_rate", "weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon"}
)
"""Hyperparameters that may differ between jobs of equal cost."""
FEATURES = ("probe_", "calibration_", "check_", "target_stop")
"""Beginnings of the hyperparameters that end a job before its whole training."""


@dataclass(frozen=True, kw_only=True)
class ExpectedCost:
    """Expected cost of one job."""

    seconds: float
    """Billable instance seconds."""
    usd: float | None
    """US dollars; None if the price is unknown."""
    source: str
    """Origin of the figure, such as `3 earlier jobs of this setting`."""


def expected_cost(job: PlannedJob, size: JobSize | None, earlier: Sequence[Job]) -> ExpectedCost | None:
    """Return the expected cost of a job, or None if no earlier job says anything about it.

    The best source counts: jobs of the same setting, a probe's projection for it, or jobs of the same model, compiler
    and batch size on this machine, scaled to the samples of this job.
    """
    similar = _comparable(job, earlier)
    equal = [each for each in similar if _agrees(job, each, FEATURES)]
    probes = [each for each in similar if each.text.get("hp_probe_precision") and _agrees(job, each, ())]
    sources = [
        ([_billable(job, each, SECONDS) for each in equal], "earlier job", " of this setting"),
        ([_billable(job, each, PROJECTED) for each in probes], "probe", " of this setting"),
    ]
    if size is not None and not any(name.startswith(FEATURES) for name in job.spec.hyperparameters):
        scaled = [_scaled(each, size.samples) for each in jobs_of_equal_steps(job, similar)]
        sources.append((scaled, "similar job", ", scaled to the samples"))
    for seconds, noun, rest in sources:
        if known := [value for value in seconds if value > 0]:
            billable = instance_seconds(typical(known), job.spec.billed_instances)
            usd = job.price.usd(billable) if job.price else None
            return ExpectedCost(seconds=billable, usd=usd, source=f"{counted(len(known), noun)}{rest}")
    return None


def _comparable(job: PlannedJob, earlier: Sequence[Job]) -> list[Job]:
    """Return the jobs on the same machine that ran to their end. The trials of a sweep may end early."""
    ended = [each for each in earlier if each.succeeded and each.text.get("role") not in (*BEFORE_TRAININGS, "trial")]
    return [each for each in ended if _is_on_same_machine(job, each)]


def _is_on_same_machine(job: PlannedJob, each: Job) -> bool:
    recorded = (each.text.get("instance_type"), each.text.get("compiler"))
    counts = (each.text.get("machine_instance_count", "1"), each.text.get("machine_devices", "1"))
    spec = job.spec
    # Jobs without sharding or an adapter are planned without these hyperparameters.
    names = ("sharding", "adapter_method")
    is_alike = all(each.text.get(f"hp_{name}", "none") == spec.hyperparameters.get(name, "none") for name in names)
    is_same_setting = recorded == (spec.instance_type, spec.compiler) and is_alike
    return is_same_setting and counts == (str(spec.instance_count), str(spec.devices))


def jobs_of_equal_steps(job: PlannedJob, earlier: Sequence[Job]) -> list[Job]:
    """Return the earlier jobs whose start-up and steps take as long as a planned job's."""
    fixed_columns = [column for column in SETUP_COLUMNS if _is_fixed(job, column)]
    alike = _comparable(job, earlier)
    return [each for each in alike if all(_equals(job, each, column) for column in fixed_columns)]


def _billable(job: PlannedJob, each: Job, column: str) -> float:
    """Return the billable seconds of an earlier job; for a job on demand, without the discount of a spot job."""
    return each.number(column) if job.spec.spot else running_seconds(each, column)


def _scaled(each: Job, samples: int) -> float:
    """Return the time of a similar job, its steady part scaled to the samples of a planned one."""
    rate, steady = each.number(STEADY), each.number("time_train_steady_seconds")
    whole = running_seconds(each, SECONDS)
    if not (rate > 0 and steady >= 0 and whole > 0):
        return math.nan
    return max(0.0, whole - steady) + samples / rate


def _agrees(job: PlannedJob, each: Job, features: tuple[str, ...]) -> bool:
    """Return whether an earlier job trained on the same data with the same hyperparameters.

    A hyperparameter that the earlier job did not record counts as equal, unless it is in `features`.
    """
    if each.text.get("data_key") != job.data_key:
        return False
    planned = {f"hp_{name}" for name in _hyperparameters(job)}
    recorded = {name for name in (*each.text, *each.numbers) if name.startswith("hp_") and _recorded(each, name)}
    differing = {name for name in planned ^ recorded if name.removeprefix("hp_").startswith(features or ("\0",))}
    names = planned & recorded - {f"hp_{name}" for name in WITHOUT_EFFECT_ON_COST}
    return not differing and all(_equals(job, each, name) for name in names if _is_fixed(job, name))


def _is_fixed(job: PlannedJob, column: str) -> bool:
    """Return False for a hyperparameter that the job itself chooses, such as the precision `auto`."""
    return _hyperparameters(job).get(column.removeprefix("hp_"), "auto") != "auto"


def _hyperparameters(job: PlannedJob) -> Mapping[str, object]:
    """Return the hyperparameters by the names with which a run logs them."""
    return job.script.hyperparameters if job.script else job.spec.hyperparameters


def _recorded(each: Job, column: str) -> str | float | None:
    number = each.number(column)
    return each.text.get(column) if math.isnan(number) else number


def _equals(job: PlannedJob, each: Job, column: str) -> bool:
    planned, recorded = _hyperparameters(job)[column.removeprefix("hp_")], _recorded(each, column)
    if isinstance(planned, (int, float)) and not isinstance(planned, bool):
        try:
            return math.isclose(float(planned), float(recorded if recorded is not None else math.nan), rel_tol=1e-6)
        except ValueError:
            return False
    return _plain(planned) == _plain(recorded)


def _plain(value: object) -> str:
    """Return a value as text, the same for a list and for its items separated by commas."""
    return str(value).lower().strip("[]()").replace(" ", "")


WITHOUT_PRICE = "Without a price, set max_billable_seconds, such as --max-billable-seconds 36000"


@dataclass(frozen=True, kw_only=True)
class WorstCase:
    jobs: int
    """Jobs without those that run again."""
    again: int
    """Jobs that run only because an equal job was disturbed."""
    amount: Amount
    """Cost if every job runs to its time limit and through its grace."""


def budget_of(experiment: Experiment) -> GroupBudget:
    budget = Budget(max_usd=experiment.max_usd, max_billable_seconds=experiment.max_billable_seconds)
    return GroupBudget(budget=budget, least_seconds=experiment.min_run_seconds)


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
        why = why_no_price(*instances_of(unknown.resources), *unknown.fallback_instance_types)
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
    keeps_nothing = any(job.spec.checkpoint_uri is None for job in jobs)
    started = certain_starts(list(map(worst_case_of_job, sample)), budget)
    return [
        f"Budget of {budget_text(budget)}: at worst these jobs cost {cost} ({count}{'' if limits else each}). "
        "Their time limits are lowered, and a job starts only if it certainly fits.",
        f"Even if every job runs to its time limit, {started} of {len(sample)} jobs start.",
        *(["A job that its limit ends keeps nothing: save_strategy would keep checkpoints."] if keeps_nothing else []),
        "To fit all jobs, raise the budget, or lower machine.max_run_seconds or the number of repeats.",
    ]


def why_no_price(*instance_types: str) -> str:
    """Return why a price is unknown, and how to set it."""
    traits = traits_of(service_name(instance_types[0]))
    if not traits.has_prices:
        return f"{traits.label} has no price: only instances of service {services_with('has_prices')} have one"
    table = json.dumps({"date": "2026-11-01", "usd_per_hour": dict.fromkeys(instance_types, 1.41)})
    field = f"{traits.section}.prices"
    return f"the price of {', '.join(instance_types)} is unknown: set {field} to a JSON file such as {table}"


def _check_one(job: PlannedJob, group_budget: GroupBudget) -> None:
    """Raise InputError for a job that does not fit even alone."""
    shortest = group_budget.least_seconds or SHORTEST_LIMIT_SECONDS
    limit = min(job.spec.max_run_seconds, math.ceil(shortest))
    least = worst_case_of_job(replace(job, spec=with_limit(job.spec, limit)))
    if group_budget.budget.allows(least):
        return
    pool = f" and {job.spec.keep_alive_seconds} s of its warm pool" if job.spec.keep_alive_seconds else ""
    instances = f" on {job.spec.billed_instances} instances" if job.spec.billed_instances > 1 else ""
    raise InputError(
        f'the budget of {budget_text(group_budget.budget)} is too small for one job of "{job.arm}": with '
        f"{limit} s of training, {overhead_seconds(job.spec):.0f} s to stop it{pool}{instances}, it may cost "
        f"{amount_text(least, group_budget.budget)}. Raise the budget, or lower min_run_seconds or "
        "machine.max_run_seconds"
    )


def worst_case_of_job(job: PlannedJob) -> Amount:
    """Return the most that a job can cost on the dearest of its instance types."""
    return worst_case(job.spec, job.dearest_price)


def worst_case_of(jobs: Sequence[PlannedJob]) -> WorstCase:
    """Return the most that jobs can cost if all of them run. A plan holds the most repeats, and repeats of disturbed
    jobs."""
    again = sum(job.is_again for job in jobs)
    return WorstCase(jobs=len(jobs) - again, again=again, amount=total(map(worst_case_of_job, jobs)))
