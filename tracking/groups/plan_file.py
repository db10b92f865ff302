"""A group's plan, kept with its parent run: whoever reads it can follow the group, and start what is left of it."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mlflow.exceptions import MlflowException
from pydantic import TypeAdapter, ValidationError

from tracking.groups.group import Group
from tracking.groups.planned_job import PlannedJob
from tracking.server.store import Store
from training.contract.errors import InputError

FILE = "plan.json"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a command runs."""

    parallel: int
    """Jobs at a time."""
    jobs: tuple[PlannedJob, ...]
    """In the order in which they are started."""


_PLAN = TypeAdapter(Plan)


def keep_plan(store: Store, group: Group, jobs: Sequence[PlannedJob], parallel: int) -> None:
    """Write the plan to the group's parent run, unless it is there."""
    if group.continued and any(each.path == FILE for each in store.call(store.client.list_artifacts, group.run_id)):
        return
    text = _PLAN.dump_json(Plan(parallel=parallel, jobs=tuple(jobs)), indent=1).decode()
    store.call(store.client.log_text, group.run_id, text, FILE)


def read_plan(store: Store, group: Group) -> Plan:
    """Return the plan of a group. Raises InputError where there is none that can be read."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = store.call(store.client.download_artifacts, group.run_id, FILE, folder)
            return _PLAN.validate_json(Path(path).read_bytes())
    except (OSError, MlflowException) as error:
        raise InputError(f"group {group.id} has no {FILE} that can be read: {str(error).splitlines()[0]}") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(f"{FILE} of group {group.id} is of another version: {place}: {first['msg']}") from error
