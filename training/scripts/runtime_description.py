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
from training.scripts.source import FILE, requirement_lines
from training.services.registry import service_name, traits_of
from training.services.supervision import toolkit
from training.services.supervision.container import (
    INHERITED_NAMES,
    INHERITED_PREFIXES,
    PYTHON_VARIABLE,
    ROOT,
    SECRET_VARIABLES,
)

HUB_ARGUMENTS = frozenset(
    ("model_name_or_path", "model_id", "config_name", "tokenizer_name", "dataset_name", "hub_model_id")
)
"""Arguments of Transformers' example scripts that name a model or data of the Hub, or a folder."""

TOOLKIT = "all of SageMaker's training toolkit (SM_...)"


def runtime_description(spec: JobSpec, *, has_requirements: bool, is_metered: bool) -> list[str]:
    """Return one line for each thing that the script of a job gets. No line contains the value of a secret.

    `has_requirements` states that the source has a requirements.txt.
    """
    is_here = not traits_of(service_name(spec.instance_type)).runs_containers
    python = spec.environment.get(PYTHON_VARIABLE)
    pipes = {name for name, options in spec.channel_options.items() if options.mode == "Pipe"}
    places = {name: f"{name}_0, {name}_1 ... (named pipes, one for each epoch)" for name in pipes}
    channels = (
        f"{ROOT}/input/data/{places.get(name, f'{name} (SM_CHANNEL_{name.upper()})')}" for name in spec.channels
    )
    own = sorted(spec.environment.items())
    variables = [f"{name}={value}" for name, value in own if name not in (SECRET_VARIABLES, PYTHON_VARIABLE)]
    if is_here:
        inherited = (*sorted(INHERITED_NAMES), *(f"{prefix}..." for prefix in INHERITED_PREFIXES))
        variables.append(f"and of this machine only {', '.join(inherited)}")
    requirements = "installed by SageMaker before the script starts"
    if not has_requirements:
        requirements = "the script has none"
    elif is_here:
        missing = "not installed (script.requirements: list)"
        requirements = f"installed in the environment of {python}" if python else missing
    elif spec.entry is None and not spec.program.endswith(".py"):
        requirements = "not installed: SageMaker installs it only for Python files (script.requirements: install)"
    inherited_secrets = filter(None, spec.environment.get(SECRET_VARIABLES, "").split(","))
    secrets = sorted({*inherited_secrets, *(spec.entry.secrets if spec.entry else ())})
    lines = [
        f"Command: {command_line(spec)}",
        f"Working directory: {ROOT}/code, a copy of the script's source",
        f"Channels: {', '.join(channels) or 'none'}",
        f"Folders: the model in {ROOT}/model (SM_MODEL_DIR), other results in {ROOT}/output/data (SM_OUTPUT_DATA_DIR), "
        f"checkpoints in {ROOT}/checkpoints",
        f"Variables: {', '.join((TOOLKIT, *variables))}",
        f"Secrets: {', '.join(secrets) or 'none'}",
        f"requirements.txt: {requirements}",
        f"Metrics: {_metrics(spec, is_metered=is_metered)}",
    ]
    if spec.entry and spec.entry.files:
        lines.append(f"Files: {', '.join(spec.entry.files)}, written into {ROOT}/code before the script starts")
    paths = f"Paths: on this machine, {ROOT} is in the job's folder; arguments and variables are changed accordingly"
    return [*lines, paths] if is_here else lines


def _metrics(spec: JobSpec, *, is_metered: bool) -> str:
    """Return where the metrics of a job come from."""
    callback = "" if "report_to" in spec.hyperparameters else " (with Trainer: set report_to to mlflow)"
    logged = f"what it logs to MLflow or TensorBoard{callback}, " if is_metered else ""
    return f"{logged}what Trainer prints, and the expressions of script.metrics"


def argument_words(spec: JobSpec) -> list[str]:
    """Return the command-line arguments of the script, as it receives them in a container."""
    if spec.entry is None:
        return toolkit.arguments(spec.hyperparameters)
    return trainfare_entry.arguments(dict(spec.hyperparameters), spec.entry.settings(spec.program))


def command_line(spec: JobSpec) -> str:
    """Return the command that starts the script, as a shell would show it."""
    program, words = spec.program, shlex.join(argument_words(spec))
    start = f"python {program}" if program.startswith("-m ") or program.endswith(".py") else f"./{program}"
    launcher = launcher_of(spec)
    instances = f" on each of {spec.instance_count} instances" if spec.instance_count > 1 else ""
    processes = f" ({spec.devices} processes{instances}, started by {launcher})" if launcher else ""
    return f"{start} {words}".rstrip() + processes


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
        is_text = isinstance(value, str) and not value.startswith(("/", "."))
        is_name = is_text and not os.path.exists(folder / str(value))  # noqa: PTH110 - false for a name that is too long
        argument = name.replace("-", "_")
        is_push = argument == "push_to_hub" and value not in (False, "false", "False")
        if is_push or (argument in HUB_ARGUMENTS and is_name):
            yield (
                f"script.hyperparameters.{name} {value!r} names something on the Hub: pass it as a folder in "
                "script.channels"
            )
