"""Work of a planned job, from its data, and its expected cost, from earlier jobs on the tracking server. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from experiments.planning.arms import MIN_STEPS
from experiments.planning.inputs import Inputs
from experiments.schema.experiment import Experiment
from judging.summaries import typical
from tracking.groups.planned_job import PlannedJob
from tracking.recorded.recorded_job import STEADY, Job, running_seconds
from training.contract.plain_text import counted
from training.contract.price import instance_seconds
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
    return JobSize(steps=steps, samples=samples, tokens=round(samples * inputs.lengths.mean_tokens))


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
    similar = _comparable(job, earlier)
    for source in (_from_equal_jobs, _from_probes, _from_similar_jobs):
        if (estimate := source(job, size, similar)) is not None:
            seconds, text = estimate
            billable = instance_seconds(seconds, job.spec.instance_count)
            return ExpectedCost(seconds=billable, usd=job.price.usd(billable) if job.price else None, source=text)
    return None


def _comparable(job: PlannedJob, earlier: Sequence[Job]) -> list[Job]:
    """Return the jobs on the same machine that ran to their end. The trials of a sweep may end early."""
    ended = [each for each in earlier if each.succeeded and each.text.get("role") not in ("calibration", "trial")]
    return [each for each in ended if _is_on_same_machine(job, each)]


def _is_on_same_machine(job: PlannedJob, each: Job) -> bool:
    recorded = (each.text.get("instance_type"), each.text.get("compiler"))
    counts = (each.text.get("machine_instance_count", "1"), each.text.get("machine_devices", "1"))
    spec = job.spec
    # Jobs without sharding are planned without this hyperparameter.
    is_sharded_alike = each.text.get("hp_sharding", "none") == spec.hyperparameters.get("sharding", "none")
    is_same_setting = recorded == (spec.instance_type, spec.compiler) and is_sharded_alike
    return is_same_setting and counts == (str(spec.instance_count), str(spec.devices))


SecondsAndSource = tuple[float, str] | None


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
    """Return the earlier jobs whose start-up and steps take as long as a planned job's."""
    return _of_equal_steps(job, _comparable(job, earlier))


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
    """Return the hyperparameters; a script's by their own names, as earlier versions logged them, and as logged now."""
    return {**job.spec.hyperparameters, **(job.script.hyperparameters if job.script else {})}


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
