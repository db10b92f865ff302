"""Stage the inputs of an experiment's jobs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from experiments.planning.arms import Arm
from experiments.planning.inputs import Inputs
from experiments.schema.experiment import Experiment
from training.services.local.container import local_path
from training.staging.sources.progress import Progress
from training.staging.sources.request import StagingRequest
from training.staging.tokens.staged import Staged, describe
from training.state.home import home
from training.state.locks import lock_for_use

Echo = Callable[[str], None]
Stage = Callable[[StagingRequest, Path, Echo, Progress], Staged]
"""Function that stages the data of a request in a state folder."""


def stage_inputs(arms: Sequence[Arm], echo: Echo) -> list[Inputs]:
    """Return the staged inputs of each arm, and print their notes. Raises InputError."""
    inputs = [_inputs(arm.experiment, echo) for arm in arms]
    for note in notes_of(inputs):
        echo(f"Note: {note}")
    return inputs


def notes_of(inputs: Sequence[Inputs]) -> list[str]:
    """Return the notes of all distinct inputs."""
    return [note for each in {each.key: each for each in inputs}.values() for note in each.notes()]


def _inputs(experiment: Experiment, echo: Echo) -> Inputs:
    """Return the inputs of an experiment, locked against deletion until this process ends."""
    from training.staging.stage import stage

    while True:
        inputs = inputs_in(home(), experiment, stage, echo)
        # If a concurrent prune has deleted the inputs, stage them again.
        if lock_for_use(home(), [local_path(uri) for uri in _uris(inputs) if uri.startswith("file://")]):
            return inputs


def _uris(inputs: Inputs) -> list[str]:
    if isinstance(inputs, Staged):
        return list(inputs.channels.values())
    environment = [inputs.environment.folder.as_uri()] if inputs.environment else []
    return [inputs.source.folder.as_uri(), *environment, *inputs.channels.uris.values()]


def inputs_in(folder: Path, experiment: Experiment, stage: Stage, echo: Echo, *, is_planned: bool = False) -> Inputs:
    """Return the inputs of an experiment in a state folder: the script, or the data that `stage` stages there.

    With `is_planned`, the environment of a script is not made.
    """
    if experiment.script is not None:
        from experiments.planning.script_inputs import script_inputs
        from training.scripts.environments import planned_environment, script_environment

        make = planned_environment if is_planned else script_environment
        return script_inputs(experiment, folder, echo, make_environment=make)
    from experiments.planning.hyperparameters import staging_request
    from training.staging.sources.progress import shown
    from training.staging.tokens.description import lines

    with shown(sys.stderr) as progress:
        staged = stage(staging_request(experiment), folder, echo, progress)
    if not staged.cached:
        echo(f"Staged {staged.train_rows} + {staged.validation_rows} rows of {staged.source}")
        for line in lines(describe(staged)):
            echo(f"  {line}")
    return staged
