"""Expected time and cost of a planned training on spot capacity, from earlier jobs. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from experiments.planning.expected_cost import ExpectedCost, JobSize, expected_cost, jobs_of_equal_steps
from experiments.planning.inputs import Inputs
from experiments.schema.experiment import Experiment
from judging.summaries import typical
from reports.comparison.arms import Job
from reports.probe.spot import (
    SpotEstimate,
    Times,
    checkpoint_seconds,
    discounts_of,
    spot_estimate,
    startup_seconds,
    terms_of,
)
from tracking.groups.planned_job import PlannedJob
from training.staging.tokens.staged import Staged


def planned_costs(
    job: PlannedJob, experiment: Experiment, inputs: Inputs, size: JobSize | None, earlier: Sequence[Job]
) -> tuple[ExpectedCost | None, SpotEstimate | None]:
    """Return the expected cost of a job, and the estimate for spot capacity; each is None if it is not known.

    The expected cost of a spot job is that of its estimate, if there is one. Probes, scripts and jobs of this machine
    have no estimate.
    """
    on_demand = expected_cost(replace(job, spec=job.spec.model_copy(update={"spot": False})), size, earlier)
    spot = _spot(job, experiment, inputs, size, earlier, on_demand) if on_demand else None
    if not job.spec.spot:
        return on_demand, spot
    if spot is None or on_demand is None or not math.isfinite(spot.spot.seconds):
        return expected_cost(job, size, earlier), spot
    billable = spot.spot.billable_instance_seconds
    seconds = spot.spot.instance_seconds if billable is None else billable
    return ExpectedCost(seconds=seconds, usd=spot.spot.usd, source=on_demand.source), spot


def _spot(
    job: PlannedJob,
    experiment: Experiment,
    inputs: Inputs,
    size: JobSize | None,
    earlier: Sequence[Job],
    on_demand: ExpectedCost,
) -> SpotEstimate | None:
    is_training = experiment.service == "sagemaker" and experiment.probe is None
    if not is_training or size is None or not isinstance(inputs, Staged):
        return None
    alike = jobs_of_equal_steps(job, earlier)
    startups = [seconds for each in alike if (seconds := startup_seconds(each)) is not None]
    writes = [seconds for each in alike if (seconds := checkpoint_seconds(each))]
    if not startups:
        return None
    times = Times(
        total_seconds=on_demand.seconds / job.spec.instance_count,
        startup_seconds=typical(startups),
        checkpoint_seconds=typical(writes) if writes else None,
        checkpoints=_checkpoints(experiment, size, inputs.train_rows),
        steps=size.steps,
    )
    machine = experiment.machine
    discount = discounts_of(earlier).get(job.spec.instance_type)
    terms = terms_of(
        machine.interruptions_per_hour, job.spec.instance_count, machine.spot_discount_percent, discount, job.price
    )
    return spot_estimate(times, terms)


def _checkpoints(experiment: Experiment, size: JobSize, rows: int) -> int:
    """Return the number of checkpoints with the one at the end, as in training/job/estimating/probe.py."""
    if experiment.save_strategy == "none":
        return 0
    if experiment.save_strategy == "steps" and experiment.save_steps:
        return math.ceil(size.steps / experiment.save_steps)
    return max(1, math.ceil(size.samples / rows))
