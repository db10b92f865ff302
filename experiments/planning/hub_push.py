"""Checks of `push_to_hub` before anything starts."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from experiments.planning.arms import Arm
from experiments.schema.experiment import Experiment
from training.contract.errors import InputError


def without_pushes(arms: Sequence[Arm], print_line: Callable[[str], None]) -> tuple[Arm, ...]:
    """Return the arms without their pushes: the models of a comparison would overwrite each other."""
    if any(arm.experiment.push_to_hub for arm in arms):
        print_line("push_to_hub is ignored: only `trainfare train` pushes a model.")
    return tuple(
        replace(arm, experiment=arm.experiment.model_copy(update={"push_to_hub": None}))
        if arm.experiment.push_to_hub
        else arm
        for arm in arms
    )


def check_token(experiment: Experiment, variables: Mapping[str, str] = os.environ) -> None:
    """Raise `InputError` if the environment variable with the token is not set on this machine."""
    push = experiment.push_to_hub
    if push is None or push.token_secret is not None or variables.get(push.token_variable, "").strip():
        return
    raise InputError(
        f"push_to_hub.token_variable is {push.token_variable}, but this environment variable is not set. Set it to a "
        "Hub token with write permission"
    )
