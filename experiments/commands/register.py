"""The verb `register`: a trained model becomes a version of its experiment's registered model, and the one in use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from models.lookup.trained_model import TrainedModel, trained_model
from models.registry.gate import Word, allowed_words, check
from models.registry.messages import evaluated
from models.registry.registry import (
    CHAMPION,
    Registered,
    Registry,
    checked_alias,
    checked_name,
    registered_name,
)
from models.registry.run_note import note_command
from tracking.groups.group import find_group
from tracking.server.store import Store, open_store
from training.contract.errors import InputError, nearest

FIELDS = ("experiment", "group", "run", "name", "alias", "allow")
PATIENCE_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is to be registered, and as what."""

    experiment: str = "demo"
    """Whose latest group's winner it is, where neither `group` nor `run` is given."""
    group: str | None = None
    """Id of a group, for its winner."""
    run: str | None = None
    """See `trained_model`."""
    name: str | None = None
    """Of the registered model; None is the experiment's."""
    alias: str = CHAMPION
    allowed: frozenset[Word] = frozenset()
    """What of the quality gate is let pass."""


def register(given: Mapping[str, str]) -> int:
    """Register the model that is asked for, and have the alias name it; see `Asked`."""
    asked = asked_of(given)
    store = open_store(retry_seconds=PATIENCE_SECONDS, otherwise="Nothing was registered.")
    trained = trained_model(store, _run(store, asked))
    if trained.chosen:
        print(f"Winner of group {trained.group}: {trained.chosen}")
    name = asked.name or registered_name(trained.experiment_name)
    registry = Registry(store)
    store.subject = f"registered model '{name}'"
    check(trained, registry.in_use(name, asked.alias), asked.allowed)
    made = registry.register(trained, name, asked.alias, allowed=asked.allowed)
    told = _told(trained, made, asked.alias)
    print(told)
    print(f"Model: models:/{name}@{asked.alias}", flush=True)
    note_command(store, "register", name, told)
    return 0


def asked_of(given: Mapping[str, str]) -> Asked:
    """Return what the fields of the command line ask for. Raises `InputError` with one sentence."""
    for name, value in given.items():
        if name not in FIELDS:
            raise InputError(f"unknown field '{name}' of register: {', '.join(FIELDS)}.{nearest(name, FIELDS)}")
        if not value.strip() and name != "allow":
            raise InputError(f"{name} is empty.")
    if "run" in given and "group" in given:
        raise InputError("run and group exclude each other: a group's id may stand as the run.")
    return Asked(
        experiment=given.get("experiment", "demo"),
        group=given.get("group"),
        run=given.get("run"),
        name=checked_name(given["name"]) if "name" in given else None,
        alias=checked_alias(given.get("alias", CHAMPION)),
        allowed=allowed_words(given.get("allow", "")),
    )


def _run(store: Store, asked: Asked) -> str:
    """Return the name of the run that is asked for: its own, or that of the group."""
    if asked.run:
        return asked.run
    return find_group(store, group_id=asked.group, experiment_name=Path(asked.experiment).stem).id


def _told(trained: TrainedModel, made: Registered, alias: str) -> str:
    """Return what was done, in a sentence or two."""
    version = str(made.version)
    of = f"run {trained.run_id} ({trained.job_name})"
    first = f"Registered {of} as {version}" if made.is_new else f"{of[:1].upper()}{of[1:]} is {version} already"
    if made.had_alias:
        second = f"and has the alias {alias}"
    else:
        was = f", which was {made.replaced}'s" if made.replaced else ""
        second = f"and gave it the alias {alias}{was}" if made.is_new else f"and now has the alias {alias}{was}"
    return f"{first}, {second}. {evaluated(trained)}"
