"""Load an experiment from its file and overrides, with every check that needs no data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from experiments.planning.arms import Arm, arms, arms_unchecked
from experiments.schema.experiment import Experiment, broken_rules, check_machine, this_machine
from experiments.schema.fields import ExperimentFields
from experiments.schema.messages import messages, rule_message
from experiments.schema.overrides import (
    ARM_PREFIX,
    BACKEND_CONFIG,
    Tree,
    backend_values,
    flat,
    read_overrides,
    with_arm_overrides,
    with_values,
)
from experiments.schema.yaml_document import Document, read_document
from state.regular_files import user_path
from training.contract.errors import InputError, InputErrors, nearest
from training.contract.s3_location import is_s3
from training.scripts.channels import BUILTIN_PREFIX
from training.scripts.source import is_git_url
from training.staging.models.model_files import PACKAGE_PREFIX

FOLDER = Path(__file__).resolve().parent.parent
__all__ = ["Arm", "Experiment", "arms", "experiment_names", "find_file", "load", "load_fields"]
PATH_FIELDS = ("model", "tokenizer", "data.train", "data.validation", "data.hub.name", "script.source", "aws.prices")
"""Fields that may hold a path. A path in a file is relative to the folder of the file."""
CHANNELS = "script.channels."
"""Beginning of the fields whose text, or whose `uri`, may be a path."""
RUN_VARIABLE = "MLFLOW_RUN_ID"
"""Variable that `mlflow run` sets for the commands that it starts."""


def load(name_or_path: str, overrides: Mapping[str, str]) -> Experiment:
    """Return the experiment in `experiments/NAME.yaml` or at a path, with overrides by dotted name.

    The override `backend_config` names a file whose fields replace the experiment's. All other overrides take
    precedence over both files. Paths in a file are relative to its folder, paths in overrides to the user's folder.
    Raises `InputError`, also for an experiment that this machine cannot run.
    """
    experiment = load_fields(name_or_path, overrides)
    arms_unchecked(experiment)  # `train` refuses an invalid arm, too
    check_machine(experiment, this_machine())
    return experiment


def load_fields(name_or_path: str, overrides: Mapping[str, str]) -> Experiment:
    """Return the experiment as `load` does, without a check of its arms and of this machine. Raises `InputError`."""
    overrides = _with_user_paths(overrides)
    document = read_document(find_file(name_or_path))
    of_arms = {name: text for name, text in overrides.items() if name.startswith(ARM_PREFIX)}
    fields = {name: text for name, text in overrides.items() if name not in {BACKEND_CONFIG, *of_arms}}
    values, locations = dict[str, Any](), dict[str, str]()
    if file := overrides.get(BACKEND_CONFIG):
        kind = "backend configuration"
        backend = read_document(find_in_user_folder(user_path(file, BACKEND_CONFIG), kind), kind)
        values, locations = backend_values(replace(backend, tree=_rebased(backend.tree, backend)))
    own, errors = read_overrides(fields)
    tree = _rebased(document.tree, document)
    compare = tree.get("compare")
    if "compare.arms" in fields and isinstance(compare, dict):  # the file's baseline names an arm of the file
        tree = {**tree, "compare": {name: value for name, value in compare.items() if name != "baseline"}}
    tree, arm_errors = with_arm_overrides(with_values(with_values(tree, values), own), of_arms)
    other_locations = {name: f"override {name}" for name in fields}
    other_locations |= {name: location for name, location in locations.items() if name not in fields}
    experiment, problems = None, list[str]()
    try:
        experiment = Experiment.model_validate(tree)
    except ValidationError as error:
        problems = messages(error, document, other_locations)
        if all(not each["loc"] for each in error.errors()):  # the fields are right, and the first rule between them
            rules = broken_rules(ExperimentFields.model_validate(tree))
            problems = [rule_message(each, document, other_locations) for each in rules]
    if experiment is None or errors or arm_errors:
        raise InputErrors([*errors, *arm_errors, *problems])
    return experiment


def experiment_names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def find_file(name_or_path: str) -> Path:
    """Return the path of an experiment. Text with a slash or the suffix .yaml or .yml is a path, other text a name."""
    if name_or_path.endswith((".yaml", ".yml")) or "/" in name_or_path:
        return find_in_user_folder(user_path(name_or_path, "experiment"), "experiment")
    if name_or_path not in (names := experiment_names()):
        listed = ", ".join(names)
        hint = nearest(name_or_path, names)
        raise InputError(f"unknown experiment {name_or_path[:80]!r}. Use one of {listed}, or a .yaml file.{hint}")
    return FOLDER / f"{name_or_path}.yaml"


def _with_user_paths(overrides: Mapping[str, str]) -> Mapping[str, str]:
    """Return the overrides with paths in the user's folder, except those that only the current folder has."""
    folder = user_folder()
    if folder == Path.cwd():
        return overrides
    paths = {name: str(_rebased_path(name, text, folder)) for name, text in overrides.items() if _may_be_path(name)}
    moved = {name: path for name, path in paths.items() if Path(path).exists() or not Path(overrides[name]).exists()}
    return {**overrides, **moved}


def _may_be_path(name: str) -> bool:
    return name in PATH_FIELDS or name.startswith(CHANNELS)


def _rebased(tree: Tree, document: Document) -> Tree:
    """Return the tree with relative paths resolved against the document's folder, including those in the arms."""
    folder = Path(document.name).parent
    fields = _with_rebased_paths(tree, folder)
    compare = fields.get("compare")
    arms = compare.get("arms") if isinstance(compare, dict) else None
    if isinstance(compare, dict) and isinstance(arms, (list, dict)):
        items = enumerate(arms) if isinstance(arms, list) else arms.items()
        rebased = {at: _with_rebased_paths(arm, folder) if isinstance(arm, dict) else arm for at, arm in items}
        fields["compare"] = {**compare, "arms": list(rebased.values()) if isinstance(arms, list) else rebased}
    return fields


def _with_rebased_paths(tree: Tree, folder: Path, prefix: str = "") -> Tree:
    rebased: Tree = {}
    for key, value in tree.items():
        name = prefix + key
        if isinstance(value, dict) and prefix == CHANNELS:
            value = {
                field: _rebased_path(name, each, folder) if field == "uri" else each for field, each in value.items()
            }
        elif isinstance(value, dict):
            value = _with_rebased_paths(value, folder, f"{name}.")
        elif _may_be_path(name):
            value = _rebased_path(name, value, folder)
        rebased[key] = value
    return rebased


def with_absolute_paths(tree: Tree) -> Tree:
    """Return the tree of a loaded experiment, whose relative paths are in the current folder, with absolute paths."""
    folder = Path.cwd()
    paths = {name: value for name, value in flat(tree) if name in PATH_FIELDS and isinstance(value, str)}
    is_here = {name: Path(value).exists() for name, value in paths.items()}
    return with_values(
        tree,
        {name: str(folder / v) if is_here[name] else _rebased_path(name, v, folder) for name, v in paths.items()},
    )


def _rebased_path(name: str, value: Any, folder: Path) -> Any:
    """Return a path resolved against `folder`. A model or Hub name is a path only if it starts with ./ or ../."""
    if not isinstance(value, str) or value.startswith(("~", "/")) or is_s3(value):
        return value
    if name.startswith("script."):
        is_path = not is_git_url(value) and not value.startswith((PACKAGE_PREFIX, BUILTIN_PREFIX))
    else:
        is_path = name in {"data.train", "data.validation", "aws.prices"} or value.startswith(("./", "../"))
    return str(folder / value) if is_path and value else value


def user_folder() -> Path:
    """Return the user's folder: the current one, or the folder in which the user called `mlflow run`.

    `mlflow run` passes on no variable with that folder. Its process is the closest ancestor without `RUN_VARIABLE`. If
    the system does not list processes (Linux does), the current folder is returned.
    """
    process = os.getppid() if RUN_VARIABLE in os.environ else 0
    try:
        while process > 1:
            folder = Path("/proc") / str(process)
            variables = (folder / "environ").read_bytes().split(b"\0")
            if not any(each.startswith(f"{RUN_VARIABLE}=".encode()) for each in variables):
                return (folder / "cwd").readlink()
            # The parent, after the process's name in parentheses, which may contain anything.
            process = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        pass
    return Path.cwd()


def find_in_user_folder(path: Path, kind: str) -> Path:
    """Return a relative path in the user's folder, or else in the current one. An absolute path is not checked.

    Raises InputError with the folders if neither has it. `kind` is the kind of file, for the message.
    """
    if path.is_absolute():
        return path
    folders = list(dict.fromkeys((user_folder(), Path.cwd())))
    for folder in folders:
        if (folder / path).exists():
            return path if folder == Path.cwd() else folder / path
    is_by_mlflow = RUN_VARIABLE in os.environ
    hint = " `mlflow run` starts commands in the project's folder: use an absolute path." if is_by_mlflow else ""
    listed = " nor in ".join(map(str, folders))
    verb = "does not exist in" if len(folders) == 1 else "exists neither in"
    raise InputError(f"{kind} file {str(path)!r} {verb} {listed}.{hint}")
