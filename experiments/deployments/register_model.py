"""Register a trained model as a version of its experiment's registered model, and set its alias."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from experiments.running.output import print_line
from models.gate import GateCheck, check, parse_allowed
from models.mlflow_records import note_command
from models.registry import (
    CHAMPION,
    Registered,
    Registry,
    checked_alias,
    checked_name,
    evaluation_sentence,
    registered_name,
)
from models.trained_model import TrainedModel, trained_model
from tracking.groups.group import find_group
from tracking.server.store import Store, open_store
from training.contract.errors import InputError

RETRY_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class Registration:
    """A model to register, with its name and alias in the registry."""

    experiment: str = "demo"
    """Experiment whose latest group's winner is registered; ignored if `group` or `run` is set."""
    group: str | None = None
    """Id of the group whose winner is registered."""
    run: str | None = None
    """Run of the model, in any form that `trained_model` accepts."""
    name: str | None = None
    """Name of the registered model; None uses the experiment's name."""
    alias: str = CHAMPION
    allowed: frozenset[GateCheck] = frozenset()
    """Checks of the quality gate to skip."""


def register(fields: Mapping[str, str]) -> int:
    """Register a model and set its alias; the fields are those of `Registration`."""
    request = read_registration(fields)
    store = open_store(echo=print_line, retry_seconds=RETRY_SECONDS, otherwise="Nothing was registered.")
    trained = trained_model(store, _run(store, request))
    if trained.chosen:
        print_line(f"Winner of group {trained.group}: {trained.chosen}")
    name = request.name or registered_name(trained.experiment_name)
    registry = Registry(store)
    store.subject = f"registered model '{name}'"
    check(trained, registry.in_use(name, request.alias), request.allowed)
    version = registry.register(trained, name, request.alias, allowed=request.allowed)
    summary = _summary(trained, version, request.alias)
    print_line(summary)
    print_line(f"Model: models:/{name}@{request.alias}")
    note_command(store, "register", name, summary)
    return 0


def read_registration(fields: Mapping[str, str]) -> Registration:
    """Read the fields of the command line. Raises `InputError`."""
    for name, value in fields.items():
        if not value.strip() and name != "allow":
            raise InputError(f"--{name} is empty.")
    if "run" in fields and "group" in fields:
        raise InputError("--run and --group cannot be combined: --run also accepts the id of a group.")
    return Registration(
        experiment=fields.get("experiment", "demo"),
        group=fields.get("group"),
        run=fields.get("run"),
        name=checked_name(fields["name"]) if "name" in fields else None,
        alias=checked_alias(fields.get("alias", CHAMPION)),
        allowed=parse_allowed(fields.get("allow", "")),
    )


def _run(store: Store, request: Registration) -> str:
    """Return the requested run, or the id of the group whose winner is registered."""
    if request.run:
        return request.run
    return find_group(store, group_id=request.group, experiment_name=Path(request.experiment).stem).id


def _summary(trained: TrainedModel, registered: Registered, alias: str) -> str:
    """Return a summary of the registration."""
    version = str(registered.version)
    run = f"run {trained.run_id} ({trained.job_name})"
    first = f"Registered {run} as {version}" if registered.is_new else f"R{run[1:]} is already {version}"
    if registered.had_alias:
        second = f"and has the alias {alias}"
    else:
        before = f", which was {registered.replaced}'s" if registered.replaced else ""
        verb = "gave it" if registered.is_new else "now has"
        second = f"and {verb} the alias {alias}{before}"
    return f"{first}, {second}. {evaluation_sentence(trained)}"
