"""Inputs of an arm's jobs: staged data, or a script with its channels, its arguments and its environment."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from experiments.planning.job_source import job_source, make_job_source
from experiments.planning.load import Arm
from experiments.schema.experiment import FILES, Experiment, script_files, script_hyperparameters
from experiments.schema.sections import Script
from state.digests import KEY_CHARACTERS, digest
from state.errors import system_reason
from state.folders import is_usable, new_folder
from state.home import home
from state.locks import lock_for_use
from state.regular_files import user_path
from training.contract.errors import InputError, nearest
from training.contract.job_spec import ScriptEntry, is_shell_safe
from training.contract.request import TRAINING_COMPILER
from training.contract.s3_location import AccountFields
from training.job.tasks import TASKS
from training.scripts.channels import Channels, find_channels
from training.scripts.runtime_description import network_uses
from training.scripts.source import (
    ScriptEnvironment,
    ScriptSource,
    find_script,
    is_package,
    program_file,
    requirement_notes,
    script_environment,
    with_entry,
)
from training.services.registry import traits_of
from training.services.supervision import toolkit
from training.services.supervision.toolkit import local_path
from training.staging.sources.progress import Progress, shown
from training.staging.sources.request import InputFields, StagingRequest
from training.staging.tokens.staged import Staged, lines

QUALITY = "quality"
"""Channel with the file of the user's own quality function."""
PYTHON_LAUNCHERS = (None, "torchrun", "xla", "pytorchddp")
"""Launchers that start several processes of a Python file only."""
UNMETERED_LAUNCHERS = ("xla", "smddp", "smp")
"""Launchers that run the script within a process of theirs, in images with torch 1."""
FLAGS = re.compile(r"store_(true|false|const)|BooleanOptionalAction|\btype\s*=\s*bool\b")
"""Declarations of argparse that do not take `--name True`, or take `--name False` as true."""


@dataclass(frozen=True, kw_only=True)
class ScriptInputs:
    source: ScriptSource
    channels: Channels
    entry: ScriptEntry | None = None
    """Settings of our entry point, which is then part of the source. None if the toolkit starts the script itself."""
    environment: ScriptEnvironment | None = None
    """Environment with the script's requirements; None runs the script in trainfare's own."""
    network_uses: tuple[str, ...] = ()
    """Uses of a network by the script; see `JobSpec`."""
    remarks: tuple[str, ...] = ()
    train_rows: int = 0
    """Rows of training data, which are not read."""

    @property
    def key(self) -> str:
        """Hash of the script's source, channels and packages, without its hyperparameters."""
        packages = f" {self.environment.key}" if self.environment else ""
        return digest(f"{self.source.identity} {self.channels.digest}{packages}", KEY_CHARACTERS)

    def notes(self) -> list[str]:
        return list(self.remarks)


Inputs = Staged | ScriptInputs
"""Inputs of an arm's jobs: staged data, or a script and its channels."""
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
    return [note for each in {each.key: each for each in inputs}.values() for note in each.notes()]


def _inputs(experiment: Experiment, echo: Echo) -> Inputs:
    """Return the inputs of an experiment, locked against deletion until this process ends."""
    from training.staging.stage import stage

    while True:
        inputs = inputs_in(home(), experiment, stage, echo)
        if isinstance(inputs, Staged):
            uris = [job_source(home()).as_uri(), *inputs.channels.values()]
        else:
            environment = [inputs.environment.folder.as_uri()] if inputs.environment else []
            uris = [inputs.source.folder.as_uri(), *environment, *inputs.channels.uris.values()]
        # If a concurrent prune has deleted the inputs, stage them again.
        if lock_for_use(home(), [local_path(uri) for uri in uris if uri.startswith("file://")]):
            return inputs


def inputs_in(folder: Path, experiment: Experiment, stage: Stage, echo: Echo, *, is_planned: bool = False) -> Inputs:
    """Return the inputs of an experiment in a state folder: the script, or the data that `stage` stages there.

    With `is_planned`, the environment of a script is not made.
    """
    if experiment.script is not None:
        return script_inputs(experiment, folder, echo, is_planned=is_planned)
    make_job_source(folder, echo)
    with shown(sys.stderr) as progress:
        staged = stage(staging_request(experiment), folder, echo, progress)
    if experiment.quality is not None:
        staged = replace(staged, channels={**staged.channels, QUALITY: quality_channel(experiment.quality, folder)})
    if not staged.cached:
        echo(f"Staged {staged.train_rows} + {staged.description.validation.rows} rows of {staged.source}")
        for line in lines(staged.description):
            echo(f"  {line}")
    return staged


def quality_channel(reference: str, home: Path) -> str:
    """Return the URI of a folder with a copy of the file of the user's quality function, named by its digest.

    Raises InputError if the file cannot be read, or does not define the function.
    """
    path, _, function = reference.rpartition(":")
    file = user_path(path, "quality")
    try:
        content = file.read_bytes()
        defined = [each.name for each in ast.parse(content).body if isinstance(each, ast.FunctionDef)]
    except OSError as error:
        raise InputError(f"quality: {path} cannot be read: {system_reason(error)}") from error
    except (SyntaxError, ValueError) as error:
        line = f" line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise InputError(f"quality: {path}{line} is not Python: {error.args[0]}") from error
    if function not in defined:
        known = f"it defines {', '.join(defined)}" if defined else "it defines none"
        raise InputError(f"quality: {path} has no function {function!r}; {known}.{nearest(function, defined)}")
    folder = home / "sources" / digest(content, KEY_CHARACTERS)
    if not is_usable(folder):
        with new_folder(folder) as unfinished:
            (unfinished / file.name).write_bytes(content)
    return folder.as_uri()


def _largest_step(experiment: Experiment) -> int:
    """Return the number of samples in the largest optimizer step of the job."""
    sizes = experiment.calibration.batch_sizes if experiment.calibration else ()
    return max(experiment.global_batch_size // experiment.batch_size * size for size in (experiment.batch_size, *sizes))


def staging_request(experiment: Experiment) -> StagingRequest:
    """Return the staging request of an experiment. Arms that read the same data have equal requests."""
    assert experiment.data is not None
    return StagingRequest(
        **{name: _read(experiment, name) for name in InputFields.model_fields},
        task=experiment.task,
        data=experiment.data,
        model=experiment.model,
        model_revision=experiment.model_revision,
        weights=experiment.first_weights,
        max_length=experiment.max_length,
        bucket_lengths=experiment.bucket_lengths,
        min_train_rows=_largest_step(experiment),
        account=AccountFields(region=experiment.aws.region, profile=experiment.aws.profile),
    )


def _read(experiment: Experiment, name: str) -> Any:
    """Return the value of a field as staging gets it, such as the text of a file. Raises InputError."""
    value, option = getattr(experiment, name), TASKS[experiment.task].options.get(name)
    try:
        return option.read(value) if option and option.read else value
    except ValueError as error:
        raise InputError(str(error)) from error


def script_inputs(
    experiment: Experiment,
    home: Path,
    echo: Echo = lambda _: None,
    variables: Mapping[str, str] = os.environ,
    is_planned: bool = False,
) -> ScriptInputs:
    """Return the inputs of the script. Raises InputError if one is missing or the script cannot run.

    `variables` are the variables of this process, which hold the script's secrets.
    """
    script = experiment.script
    assert script is not None
    is_contained = traits_of(experiment.service).runs_containers
    for name in () if is_contained else script.secrets:
        if not variables.get(name, "").strip():
            raise InputError(f"script.secrets.{name}: the environment variable {name} is not set. Set it and try again")
    sources = home / "sources"
    source = find_script(
        script.source, script.program, sources, revision=script.revision, directory=script.directory, echo=echo
    )
    _check_launcher(experiment, script, source)
    values = script_hyperparameters(experiment)
    _check_booleans(script, source, values)
    entry = _entry(experiment, script, source, values)
    account = AccountFields(region=experiment.aws.region, profile=experiment.aws.profile)
    channels = find_channels(script.channels, home, account)
    installs = script.requirements == "install" and not is_contained
    environment = script_environment(source, home, echo, is_planned=is_planned) if installs else None
    return ScriptInputs(
        source=source if entry is None else with_entry(source, sources, echo, is_metered=is_metered(experiment)),
        channels=channels,
        entry=entry,
        environment=environment,
        network_uses=tuple(network_uses(source.folder, values, script.secrets)),
        remarks=(
            *(
                f"{FILES}{path} replaces the file of this name in {source.description}"
                for path in script.files
                if (source.folder / path).exists()
            ),
            *requirement_notes(
                source.folder, local=not is_contained, python=environment.python if environment else None
            ),
        ),
    )


def _entry(
    experiment: Experiment, script: Script, source: ScriptSource, values: Mapping[str, Any]
) -> ScriptEntry | None:
    """Return the settings of our entry point if the toolkit alone cannot start the script as it should."""
    carried, secrets, is_contained = {}, {}, traits_of(experiment.service).runs_containers
    if is_contained:
        # The shell of SageMaker's toolkit would change these values.
        unsafe = (name for name in values if not all(map(is_shell_safe, toolkit.arguments({name: values[name]}))))
        carried = {name: values[name] for name in unsafe}
        secrets = {name: each for name, each in script.secrets.items() if each}
    flags = script.arguments.booleans == "flag" and any(isinstance(value, bool) for value in values.values())
    lists = any(isinstance(value, list) for value in values.values())
    has_forms = bool(script.words or flags or lists or script.arguments.style != "space")
    is_shell = not script.program.endswith(".py")
    # The toolkit installs requirements.txt only for Python files, and runs only top-level modules of a package.
    needs_packages = is_shell and script.requirements == "install" and is_contained
    is_inner = "/" in script.program and not is_shell and is_package(source.folder)
    is_module = script.program.startswith("-m ")
    needs_entry = script.files or has_forms or secrets or needs_packages or is_inner or is_module or carried
    if not (needs_entry or is_metered(experiment)):
        return None
    return ScriptEntry(
        style=script.arguments.style,
        flags=flags,
        words=script.words,
        secrets=secrets,
        values=carried,
        files=script_files(experiment),
        samples_per_step=samples_per_step(experiment),
    )


def is_metered(experiment: Experiment) -> bool:
    """Return whether a job runs under the meter."""
    assert experiment.script is not None
    is_old = experiment.compiler in TRAINING_COMPILER or experiment.machine.launcher in UNMETERED_LAUNCHERS
    return experiment.script.meter and not is_old


def samples_per_step(experiment: Experiment) -> int | None:
    assert experiment.script is not None
    declared = experiment.script.samples_per_step
    return experiment.global_batch_size if isinstance(declared, str) else declared


def _check_booleans(script: Script, source: ScriptSource, values: Mapping[str, Any]) -> None:
    """Raise InputError for true or false without a form, if the program's text looks like flags of argparse."""
    name = next((name for name, value in values.items() if isinstance(value, bool)), None)
    if name is None or script.arguments.booleans != "auto":
        return
    if FLAGS.search(program_file(source.folder, script.program).read_text("utf-8", errors="replace")):
        raise InputError(
            f"script.hyperparameters.{name} is true or false, and {script.program} may declare flags: set "
            f"script.arguments.booleans to flag (--{name} for true, nothing for false) or to value (--{name} True). "
            f"Write any other flag after the program in script.entry_point, such as '{script.program} --no-{name}'"
        )


def _check_launcher(experiment: Experiment, script: Script, source: ScriptSource) -> None:
    """Raise InputError for a program of which the launcher cannot start several processes."""
    machine = experiment.machine
    if machine.devices * machine.instance_count == 1 and machine.launcher is None:
        return
    if machine.launcher not in PYTHON_LAUNCHERS or script.program.startswith("-m "):
        return
    if not script.program.endswith(".py"):
        raise InputError(
            f"script.entry_point {script.program!r} is not a Python file, and the launcher of several "
            "processes starts only Python files: use machine.devices 1 and start the processes in the script"
        )
    if is_package(source.folder):
        raise InputError(
            f"{source.description} contains a setup.py, and the launcher of several processes starts no packages: "
            "set script.directory to a folder without a setup.py, or use machine.devices 1"
        )
