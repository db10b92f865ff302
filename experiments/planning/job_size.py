"""Work of one job: optimizer steps, samples and tokens, from its experiment and its data. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from experiments.planning.inputs import Inputs
from experiments.planning.probe_arms import MIN_STEPS
from experiments.schema.experiment import Experiment
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
        steps = _last_step_of_probe(experiment, steps)
    whole_epochs, rest = divmod(steps, steps_per_epoch)
    in_epoch = min(rows, steps_per_epoch * experiment.global_batch_size)
    samples = whole_epochs * in_epoch + min(rest * experiment.global_batch_size, in_epoch)
    return JobSize(steps=steps, samples=samples, tokens=round(samples * inputs.lengths.mean_tokens))


def _last_step_of_probe(experiment: Experiment, steps: int) -> int:
    limit = experiment.probe.samples if experiment.probe else None
    most = math.ceil(limit / experiment.global_batch_size) if limit else math.ceil(steps / PROBE_FRACTION)
    return min(steps, max(most, experiment.steady_after_steps + MIN_STEPS))
