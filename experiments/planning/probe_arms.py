"""What the verb `probe` makes of a comparison's arms: each is trained only as far as its projection needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from experiments.planning.arms import Arm
from experiments.schema.experiment import Experiment
from experiments.schema.fields import Probe
from training.contract.errors import InputError

FEWEST_STEPS = 25
"""Steady steps below which a job projects nothing: training/job/measuring/projection.py."""


def probes(arms: Sequence[Arm]) -> tuple[Arm, ...]:
    """Return the arms as probes. Raises `InputError` for what cannot be one."""
    for arm in arms:
        _check(arm)
    return tuple(replace(arm, experiment=_probe(arm.experiment)) for arm in arms)


def whole_trainings(arms: Sequence[Arm]) -> tuple[Arm, ...]:
    """Return the arms without what their file says of probes: they are trained to the end."""
    return tuple(replace(arm, experiment=arm.experiment.model_copy(update={"probe": None})) for arm in arms)


def _probe(experiment: Experiment) -> Experiment:
    # A probe's evaluations tell a loss of a sample of the rows: no target is reached by it, and no model is the best.
    left_out = {"push_to_hub": None, "target": None, "best_metric": None}
    return experiment.model_copy(update={"probe": experiment.probe or Probe(), **left_out})


def _check(arm: Arm) -> None:
    experiment = arm.experiment
    if experiment.script is not None:
        raise InputError(
            "probe requires a task: a script does not report its steps; `compare` measures it from outside"
        )
    if experiment.calibration is not None:
        raise InputError("calibration and the verb probe exclude each other: a calibration trains nothing")
    samples = experiment.probe.samples if experiment.probe else None
    fewest = (experiment.steady_after_steps + FEWEST_STEPS) * experiment.global_batch_size
    if samples is not None and samples < fewest:
        raise InputError(
            f"probe.samples {samples} is too few for arm “{arm.label}”: {experiment.steady_after_steps} steps of "
            f"warm-up and {FEWEST_STEPS} to measure, of {experiment.global_batch_size} samples each, take {fewest}"
        )
