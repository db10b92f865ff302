"""Turn the arms of a comparison into probes, which stop once their projected cost is precise enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from experiments.planning.arms import Arm
from experiments.schema.compare_fields import Probe
from experiments.schema.experiment import Experiment
from training.contract.errors import InputError

MIN_STEPS = 25
"""Fewest steady steps for a projection; see training/job/estimating/projection.py."""


def probes(arms: Sequence[Arm]) -> tuple[Arm, ...]:
    """Return the arms as probes. Raises `InputError` for an arm that cannot be a probe."""
    for arm in arms:
        _check(arm)
    return tuple(replace(arm, experiment=_probe(arm.experiment)) for arm in arms)


def whole_trainings(arms: Sequence[Arm]) -> tuple[Arm, ...]:
    """Return the arms without their section `probe`, so that they train to the end."""
    return tuple(replace(arm, experiment=arm.experiment.model_copy(update={"probe": None})) for arm in arms)


def _probe(experiment: Experiment) -> Experiment:
    # A probe evaluates only a sample of the rows, so it cannot reach a target or select the best model.
    removed = {"push_to_hub": None, "target": None, "best_metric": None}
    return experiment.model_copy(update={"probe": experiment.probe or Probe(), **removed})


def _check(arm: Arm) -> None:
    experiment = arm.experiment
    if experiment.script is not None:
        raise InputError(
            "probe requires a task, because it cannot end a script once its speed is known. Use `trainfare compare` "
            "for a script"
        )
    if experiment.calibration is not None:
        raise InputError("calibration and the verb probe cannot be combined: a calibration trains nothing")
    samples = experiment.probe.samples if experiment.probe else None
    fewest = (experiment.steady_after_steps + MIN_STEPS) * experiment.global_batch_size
    if samples is not None and samples < fewest:
        raise InputError(
            f"probe.samples {samples} is too small for arm “{arm.label}”: {experiment.steady_after_steps} warm-up "
            f"steps and {MIN_STEPS} measured steps, of {experiment.global_batch_size} samples each, need {fewest}"
        )
