"""Description of a script's job (command, folders, channels, variables, packages), and its uses of a network.

Pure. The text is the same for both services where they behave the same.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pydantic import JsonValue

from training.contract.job_spec import JobSpec
from training.contract.request import launcher_of
from training.scripts import trainfare_entry
from training.scripts.environments import FILE, requirement_lines
from training.services.local import toolkit
from training.services.local.container import (
    INHERITED_NAMES,
    INHERITED_PREFIXES,
    PYTHON_VARIABLE,
    ROOT,
    SECRET_VARIABLES,
)
from training.services.registry import service_name, traits_of

HUB_ARGUMENTS = frozenset(
    ("model_name_or_path", "model_id", "config_name", "tokenizer_name", "dataset_name", "hub_model_id")
)
"""Arguments of Transformers' example scripts that name a model or data of the Hub, or a folder."""


def runtime_description(spec: JobSpec, *, has_requirements: bool) -> list[str]:
    """Return one line for each thing that the script of a job gets. No line contains the value of a secret.

    `has_requirements` states that the source has a requirements.txt.
    """
    return [
        f"Command: {command_line(spec)}",
        f"Working directory: {ROOT}/code, a copy of the script's source",
        f"Channels: {_channels(spec)}",
        f"Folders: the model in {ROOT}/model (SM_MODEL_DIR), other results in {ROOT}/output/data (SM_OUTPUT_DATA_DIR), "
        f"checkpoints in {ROOT}/checkpoints",
        f"Variables: {', '.join(_variables(spec))}",
        f"Secrets: {', '.join(secret_names(spec)) or 'none'}",
        f"requirements.txt: {_requirements(spec, has_requirements=has_requirements)}",
        *_paths(spec),
    ]


def argument_words(spec: JobSpec) -> list[str]:
    """Return the command-line arguments of the script, as it receives them in a container."""
    if spec.entry is None:
        return toolkit.arguments(spec.hyperparameters)
    return trainfare_entry.arguments(dict(spec.hyperparameters), spec.entry.settings(spec.program))


def secret_names(spec: JobSpec) -> list[str]:
    """Return the names of the variables that hold the script's secrets."""
    inherited = spec.environment.get(SECRET_VARIABLES, "").split(",")
    return sorted({*filter(None, inherited), *(spec.entry.secrets if spec.entry else ())})


def command_line(spec: JobSpec) -> str:
    """Return the command that starts the script, as a shell would show it."""
    program, words = spec.program, shlex.join(argument_words(spec))
    start = f"python {program}" if program.startswith("-m ") or program.endswith(".py") else f"./{program}"
    launcher = launcher_of(spec)
    instances = f" on each of {spec.instance_count} instances" if spec.instance_count > 1 else ""
    processes = f" ({spec.devices} processes{instances}, started by {launcher})" if launcher else ""
    return f"{start} {words}".rstrip() + processes


def _is_contained(spec: JobSpec) -> bool:
    return traits_of(service_name(spec.instance_type)).runs_containers


def _channels(spec: JobSpec) -> str:
    pipes = {name for name, options in spec.channel_options.items() if options.mode == "Pipe"}
    places = {name: f"{name}_0, {name}_1 ... (named pipes, one for each epoch)" for name in pipes}
    channels = (
        f"{ROOT}/input/data/{places.get(name, f'{name} (SM_CHANNEL_{name.upper()})')}" for name in spec.channels
    )
    return ", ".join(channels) or "none"


def _variables(spec: JobSpec) -> Iterator[str]:
    yield "those of SageMaker's training toolkit (SM_...)"
    for name, value in sorted(spec.environment.items()):
        if name not in (SECRET_VARIABLES, PYTHON_VARIABLE):
            yield f"{name}={value}"
    if not _is_contained(spec):
        inherited = (*sorted(INHERITED_NAMES), *(f"{prefix}..." for prefix in INHERITED_PREFIXES))
        yield f"and of this machine only {', '.join(inherited)}"


def _requirements(spec: JobSpec, *, has_requirements: bool) -> str:
    if not has_requirements:
        return "the script has none"
    if not _is_contained(spec):
        python = spec.environment.get(PYTHON_VARIABLE)
        return f"installed in the environment of {python}" if python else "not installed (script.requirements: list)"
    if spec.entry is None and not spec.program.endswith(".py"):
        return "not installed: SageMaker installs it only for Python files (script.requirements: install)"
    return "installed by SageMaker before the script starts"


def _paths(spec: JobSpec) -> Iterator[str]:
    if not _is_contained(spec):
        yield f"Paths: on this machine, {ROOT} is in the job's folder; arguments and variables are changed accordingly"


def network_uses(folder: Path, hyperparameters: Mapping[str, JsonValue], secrets: Iterable[str]) -> Iterator[str]:
    """Yield each use as a sentence without a full stop, with what to do instead. `folder` contains the script."""
    for name in secrets:
        yield f"script.secrets.{name} is read from AWS Secrets Manager inside the job: remove it"
    if lines := requirement_lines(folder):
        yield (
            f"{FILE} of the script is installed from a package index ({lines[0]}): remove it, and use an image that "
            "contains the packages"
        )
    for name, value in hyperparameters.items():
        if _names_hub(name.replace("-", "_"), value, folder):
            yield (
                f"script.hyperparameters.{name} {value!r} names something on the Hub: pass it as a folder in "
                "script.channels"
            )


def _names_hub(name: str, value: JsonValue, folder: Path) -> bool:
    if name == "push_to_hub":
        return value not in (False, "false", "False")
    is_path = not isinstance(value, str) or value.startswith(("/", ".")) or os.path.exists(folder / value)  # noqa: PTH110 - false for a name that is too long
    return name in HUB_ARGUMENTS and not is_path
