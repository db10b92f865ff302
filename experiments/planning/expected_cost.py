"""Expected cost of a planned job, from earlier jobs on the tracking server. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from experiments.planning.job_size import JobSize
from judging.summaries import typical
from reports.comparison.arms import STEADY, Job
from reports.model.numbers import counted
from reports.probe.spot import running_seconds
from tracking.groups.planned_job import PlannedJob
from training.contract.price import instance_seconds

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
FEATURES = ("probe_", "calibration_", "target_stop")
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
    similar = [each for each in earlier if _counts(each) and _is_on_same_machine(job, each)]
    for source in (_from_equal_jobs, _from_probes, _from_similar_jobs):
        if (estimate := source(job, size, similar)) is not None:
            seconds, text = estimate
            billable = instance_seconds(seconds, job.spec.instance_count)
            return ExpectedCost(seconds=billable, usd=job.price.usd(billable) if job.price else None, source=text)
    return None


def _counts(each: Job) -> bool:
    """Return whether a job ran to its end. The trials of a sweep may end early."""
    return each.succeeded and each.text.get("role") not in ("calibration", "trial")


def _is_on_same_machine(job: PlannedJob, each: Job) -> bool:
    recorded = (each.text.get("instance_type"), each.text.get("compiler"))
    counts = (each.text.get("job_instance_count", "1"), each.text.get("job_devices", "1"))
    spec = job.spec
    # Jobs without sharding are planned without this hyperparameter.
    is_sharded_alike = each.text.get("hp_sharding", "none") == spec.hyperparameters.get("sharding", "none")
    is_same_setting = recorded == (spec.instance_type, spec.compiler) and is_sharded_alike
    return is_same_setting and counts == (str(spec.instance_count), str(spec.devices))


SecondsAndSource = tuple[float, str] | None
Source = Callable[[PlannedJob, JobSize | None, Sequence[Job]], SecondsAndSource]


def _from_equal_jobs(job: PlannedJob, _: JobSize | None, earlier: Sequence[Job]) -> SecondsAndSource:
    equal = [each for each in earlier if _agrees(job, each, FEATURES)]
    seconds = [value for each in equal if (value := _billable(job, each, SECONDS)) > 0]
    return (typical(seconds), f"{counted(len(seconds), 'earlier job')} of this setting") if seconds else None


def _from_probes(job: PlannedJob, _: JobSize | None, earlier: Sequence[Job]) -> SecondsAndSource:
    probes = [each for each in earlier if each.text.get("hp_probe_precision") and _agrees(job, each, ())]
    seconds = [value for each in probes if (value := _billable(job, each, PROJECTED)) > 0]
    return (typical(seconds), f"{counted(len(seconds), 'probe')} of this setting") if seconds else None


def _from_similar_jobs(job: PlannedJob, size: JobSize | None, earlier: Sequence[Job]) -> SecondsAndSource:
    """Scale the steady time of similar jobs to the samples of this job, and keep the rest of their time as it is."""
    if size is None or any(name.startswith(FEATURES) for name in job.spec.hyperparameters):
        return None
    seconds = [value for each in _of_equal_steps(job, earlier) if (value := _scaled(each, size.samples)) > 0]
    return (typical(seconds), f"{counted(len(seconds), 'similar job')}, scaled to the samples") if seconds else None


def jobs_of_equal_steps(job: PlannedJob, earlier: Sequence[Job]) -> list[Job]:
    """Return the earlier jobs whose start-up and steps take as long as those of a planned job."""
    return _of_equal_steps(job, [each for each in earlier if _counts(each) and _is_on_same_machine(job, each)])


def _of_equal_steps(job: PlannedJob, earlier: Sequence[Job]) -> list[Job]:
    fixed_columns = [column for column in SETUP_COLUMNS if _is_fixed(job, column)]
    return [each for each in earlier if all(_equals(job, each, column) for column in fixed_columns)]


def _billable(job: PlannedJob, each: Job, column: str) -> float:
    """Return the billable seconds of an earlier job; for a job on demand, without the discount of a spot job."""
    return each.number(column) if job.spec.spot else running_seconds(each, column)


def _scaled(each: Job, samples: int) -> float:
    rate, steady = each.number(STEADY), each.number("time_train_steady_seconds")
    whole = running_seconds(each, SECONDS)
    if not (rate > 0 and steady >= 0 and whole > 0):
        return math.nan
    return max(0.0, whole - steady) + samples / rate


def _agrees(job: PlannedJob, each: Job, features: tuple[str, ...]) -> bool:
    """Return whether an earlier job trained on the same data with the same hyperparameters.

    A hyperparameter that the earlier job did not record counts as equal, except those of `features`.
    """
    if each.text.get("data_key") != job.data_key:
        return False
    planned = {f"hp_{name}" for name in job.spec.hyperparameters}
    recorded = {name for name in (*each.text, *each.numbers) if name.startswith("hp_") and _recorded(each, name)}
    differing = {name for name in planned ^ recorded if name.removeprefix("hp_").startswith(features or ("\0",))}
    names = planned & recorded - {f"hp_{name}" for name in WITHOUT_EFFECT_ON_COST}
    return not differing and all(_equals(job, each, name) for name in names if _is_fixed(job, name))


def _is_fixed(job: PlannedJob, column: str) -> bool:
    """Return False for a hyperparameter that the job itself chooses, such as the precision `auto`."""
    return job.spec.hyperparameters.get(column.removeprefix("hp_"), "auto") != "auto"


def _recorded(each: Job, column: str) -> str | float | None:
    number = each.number(column)
    return each.text.get(column) if math.isnan(number) else number


def _equals(job: PlannedJob, each: Job, column: str) -> bool:
    planned, recorded = job.spec.hyperparameters[column.removeprefix("hp_")], _recorded(each, column)
    if isinstance(planned, (int, float)) and not isinstance(planned, bool):
        try:
            return math.isclose(float(planned), float(recorded if recorded is not None else math.nan), rel_tol=1e-6)
        except ValueError:
            return False
    return _plain(planned) == _plain(recorded)


def _plain(value: object) -> str:
    """Return a value as text, the same for a list and for its items separated by commas."""
    return str(value).lower().strip("[]()").replace(" ", "")
