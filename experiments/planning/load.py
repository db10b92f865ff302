"""Load an experiment: its file, the overrides, and every check that needs no data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from experiments.planning.arms import Arm, arms, arms_anywhere
from experiments.schema.backend_file import PARAMETER as BACKEND_CONFIG
from experiments.schema.backend_file import backend_values
from experiments.schema.experiment import Experiment
from experiments.schema.messages import first_sentence
from experiments.schema.overrides import Tree, with_overrides, with_values
from experiments.schema.rules import check_machine, this_machine
from experiments.schema.yaml_document import Document, read_document
from training.contract.errors import InputError, nearest
from training.scripts.channels import BUILTIN_PREFIX
from training.scripts.git import is_git_url
from training.staging.models.model_files import PACKAGE_PREFIX

__all__ = ["Arm", "Experiment", "arms", "experiment_names", "find_file", "load"]

FOLDER = Path(__file__).resolve().parent.parent
PATH_FIELDS = ("model", "tokenizer", "data.train", "data.validation", "data.hub.name", "script.source", "aws.prices")
"""Fields that may hold a path; in a file, it is relative to the file's folder."""


def load(name_or_path: str, given: Mapping[str, str]) -> Experiment:
    """Return the experiment `experiments/NAME.yaml`, or of a path, with overrides by dotted name.

    The override `backend_config` names a file that is laid over the experiment, below the other overrides. Paths in a
    file are relative to the file's folder, paths in overrides to the current one. Raises `InputError`, also for what
    this machine cannot run.
    """
    document = read_document(find_file(name_or_path))
    overrides = {name: text for name, text in given.items() if name != BACKEND_CONFIG}
    values, places = _backend(given.get(BACKEND_CONFIG))
    tree = with_overrides(with_values(_of_other_arms(_rebased(document.tree, document), overrides), values), overrides)
    elsewhere = {name: f"override {name}" for name in overrides}
    elsewhere |= {name: place for name, place in places.items() if name not in overrides}
    try:
        experiment = Experiment.model_validate(tree)
    except ValidationError as error:
        raise InputError(first_sentence(error, document, elsewhere)) from error
    arms_anywhere(experiment)  # an arm that cannot be is refused even where only `train` is asked for
    check_machine(experiment, this_machine())
    return experiment


def _backend(file: str | None) -> tuple[dict[str, Any], dict[str, str]]:
    if not file:
        return {}, {}
    document = read_document(Path(file).expanduser(), "backend configuration")
    return backend_values(replace(document, tree=_rebased(document.tree, document)))


def _of_other_arms(tree: Tree, overrides: Mapping[str, str]) -> Tree:
    """Return the tree without its baseline where the arms are given anew: it is one of the file's own arms."""
    compare = tree.get("compare")
    if "compare.arms" not in overrides or not isinstance(compare, dict):
        return tree
    return {**tree, "compare": {name: value for name, value in compare.items() if name != "baseline"}}


def experiment_names() -> list[str]:
    """Return the names of the experiments that come with the project."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def find_file(name_or_path: str) -> Path:
    """Return an experiment's file: what ends in .yaml or .yml or holds a slash is a path, anything else a name."""
    if name_or_path.endswith((".yaml", ".yml")) or "/" in name_or_path:
        return Path(name_or_path).expanduser()
    if name_or_path not in (names := experiment_names()):
        listed = ", ".join(names)
        hint = nearest(name_or_path, names)
        raise InputError(f"unknown experiment {name_or_path[:80]!r}: known are {listed}, or give a .yaml file.{hint}")
    return FOLDER / f"{name_or_path}.yaml"


def _rebased(tree: Tree, document: Document) -> Tree:
    """Return the tree with relative paths made relative to the document's folder, those of the arms included."""
    folder = Path(document.name).parent
    found = _with_rebased_paths(tree, folder)
    compare = found.get("compare")
    if isinstance(compare, dict) and isinstance(compare.get("arms"), list):
        rebased = [_with_rebased_paths(arm, folder) if isinstance(arm, dict) else arm for arm in compare["arms"]]
        found["compare"] = {**compare, "arms": rebased}
    return found


def _with_rebased_paths(tree: Tree, folder: Path, prefix: str = "") -> Tree:
    found: Tree = {}
    for key, value in tree.items():
        name = prefix + key
        if isinstance(value, dict):
            value = _with_rebased_paths(value, folder, f"{name}.")
        elif name in PATH_FIELDS or name.startswith("script.channels."):
            value = _rebased_path(name, value, folder)
        found[key] = value
    return found


def _rebased_path(name: str, value: Any, folder: Path) -> Any:
    """Return a data file's path from its folder; a model or Hub name is a path only where it begins like one."""
    if not isinstance(value, str) or value.startswith(("~", "/")):
        return value
    if name.startswith("script."):
        is_path = not is_git_url(value) and not value.startswith((PACKAGE_PREFIX, BUILTIN_PREFIX))
    else:
        is_path = name in {"data.train", "data.validation", "aws.prices"} or value.startswith(("./", "../"))
    return str(folder / value) if is_path and value else value
