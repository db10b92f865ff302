"""Stage the inputs of an experiment's jobs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from experiments.planning.arms import Arm
from experiments.planning.plan import Inputs
from experiments.schema.experiment import Experiment
from training.services.local.container import local_path
from training.staging.tokens.staged import Staged, describe
from training.state.home import home
from training.state.shared_folders import lock_for_use

Echo = Callable[[str], None]


def stage_inputs(arms: Sequence[Arm], echo: Echo) -> list[Inputs]:
    """Return the staged inputs of each arm, and print their notes. Raises InputError."""
    inputs = [_inputs(arm.experiment, echo) for arm in arms]
    for each in {each.key: each for each in inputs}.values():
        for note in each.notes():
            echo(f"Note: {note}")
    return inputs


def _inputs(experiment: Experiment, echo: Echo) -> Inputs:
    """Return the inputs of an experiment, locked against deletion until this process ends."""
    while True:
        inputs = _staged(experiment, echo)
        # If a concurrent prune has deleted the inputs, stage them again.
        if lock_for_use(home(), [local_path(uri) for uri in _uris(inputs)]):
            return inputs


def _uris(inputs: Inputs) -> list[str]:
    if isinstance(inputs, Staged):
        return list(inputs.channels.values())
    return [inputs.source.folder.as_uri(), *inputs.channels.uris.values()]


def _staged(experiment: Experiment, echo: Echo) -> Inputs:
    if experiment.script is not None:
        from experiments.planning.script_inputs import script_inputs

        return script_inputs(experiment.script, home(), echo)
    from experiments.planning.hyperparameters import staging_request
    from training.staging.sources.progress import shown
    from training.staging.stage import stage
    from training.staging.tokens.description_lines import lines

    with shown(sys.stderr) as progress:
        staged = stage(staging_request(experiment), home(), echo, progress)
    if not staged.cached:
        echo(f"Staged {staged.train_rows} + {staged.validation_rows} rows of {staged.source}")
        for line in lines(describe(staged)):
            echo(f"  {line}")
    return staged
