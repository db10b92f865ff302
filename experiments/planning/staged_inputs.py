"""What an experiment's jobs read, brought to where a plan can name it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from experiments.planning.arms import Arm
from experiments.planning.plan import Inputs
from experiments.schema.experiment import Experiment
from training.services.local.container import local_path
from training.staging.tokens.staged import Staged
from training.state.home import home
from training.state.shared_folders import use

Say = Callable[[str], None]


def inputs_of(chosen: Sequence[Arm], say: Say) -> list[Inputs]:
    """Return what each arm reads, staged, and say what a person should know of it. Raises InputError."""
    found = [_inputs(arm.experiment, say) for arm in chosen]
    for each in {each.key: each for each in found}.values():
        for note in each.notes():
            say(f"Note: {note}")
    return found


def _inputs(experiment: Experiment, say: Say) -> Inputs:
    """Return what an experiment's jobs read, which no prune deletes as long as this process lives."""
    while True:
        found = _found(experiment, say)
        # What a prune has taken away just now is made again.
        if use(home(), [local_path(uri) for uri in _uris(found)]):
            return found


def _uris(found: Inputs) -> list[str]:
    if isinstance(found, Staged):
        return list(found.channels.values())
    return [found.source.folder.as_uri(), *found.channels.uris.values()]


def _found(experiment: Experiment, say: Say) -> Inputs:
    if experiment.script is not None:
        from experiments.planning.script_inputs import script_inputs

        return script_inputs(experiment.script, home())
    from experiments.planning.hyperparameters import staging_request
    from training.staging.stage import stage

    staged = stage(staging_request(experiment), home())
    if not staged.cached:
        say(f"Staged {staged.train_rows} + {staged.validation_rows} rows of {staged.source}")
    return staged
