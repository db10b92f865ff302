"""Register a trained model as a version of its experiment's registered model, and set its alias."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from experiments.running.options import check_not_empty, read_choices
from experiments.running.output import answer, print_line
from models.registry import (
    CHAMPION,
    GATE_CHECKS,
    Registry,
    checked_alias,
    checked_name,
    evaluation_sentence,
    registered_name,
)
from models.trained_model import trained_model
from tracking.groups.group import find_group
from tracking.server.store import open_store
from training.contract.errors import InputError

RETRY_SECONDS = 30.0


def register(fields: Mapping[str, str]) -> int:
    """Register the model of `run`, or the winner of `group` or of the latest group of `experiment`. Set its alias."""
    check_not_empty(fields)
    if "run" in fields and "group" in fields:
        raise InputError("--run and --group cannot be combined: --run also accepts the id of a group.")
    chosen_name = checked_name(fields["name"]) if "name" in fields else None
    alias = checked_alias(fields.get("alias", CHAMPION))
    allowed = read_choices("allow", fields.get("allow", ""), GATE_CHECKS)
    store = open_store(echo=print_line, retry_seconds=RETRY_SECONDS, otherwise="Nothing was registered.")
    run = fields.get("run")
    if run is None:
        experiment = Path(fields.get("experiment", "demo")).stem
        run = find_group(store, group_id=fields.get("group"), experiment_name=experiment).id
    trained = trained_model(store, run)
    if trained.chosen:
        print_line(f"Winner of group {trained.group}: {trained.chosen}")
    name = chosen_name or registered_name(trained.experiment_name)
    registered = Registry(store).register(trained, name, alias, allowed=allowed)
    run, before = f"run {trained.run_id} ({trained.job_name})", registered.replaced
    done = f"Registered {run} as" if registered.is_new else f"R{run[1:]} is already"
    alias_text = f"with the alias {alias}" + (f", which was {before}'s" if before else "")
    print_line(f"{done} {registered.version}, {alias_text}. {evaluation_sentence(trained)}")
    print_line(f"Model: models:/{name}@{alias}")
    answer(
        {
            "model": f"models:/{name}@{alias}",
            "version": int(registered.version.number),
            "run_id": trained.run_id,
            "is_new": registered.is_new,
            "replaced": int(before.number) if before else None,
        }
    )
    return 0
