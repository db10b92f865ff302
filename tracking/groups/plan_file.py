"""Plan of a group, stored with its parent run. With it any launcher can follow the group and start missing jobs."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mlflow.exceptions import MlflowException
from pydantic import TypeAdapter, ValidationError

from judging.design import Design
from tracking.groups.group import Group
from tracking.groups.planned_job import PlannedJob
from tracking.server.store import Store
from training.contract.errors import InputError

FILE = "plan.json"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All jobs of one command."""

    parallel: int
    """Jobs that run at the same time."""
    jobs: tuple[PlannedJob, ...]
    """Jobs in the order of their start."""
    design: Design | None = None
    """Looks after which arms may stop; None runs all jobs."""


_PLAN = TypeAdapter(Plan)


def write_plan(
    store: Store, group: Group, jobs: Sequence[PlannedJob], parallel: int, design: Design | None = None
) -> None:
    """Write the plan to the group's parent run, unless an earlier launcher wrote it."""
    if group.continued and any(each.path == FILE for each in store.call(store.client.list_artifacts, group.run_id)):
        return
    text = _PLAN.dump_json(Plan(parallel=parallel, jobs=tuple(jobs), design=design), indent=1).decode()
    store.call(store.client.log_text, group.run_id, text, FILE)


def read_plan(store: Store, group: Group) -> Plan:
    """Return the plan of a group. Raises InputError if it is missing or cannot be read."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = store.call(store.client.download_artifacts, group.run_id, FILE, folder)
            return _PLAN.validate_json(Path(path).read_bytes())
    except (OSError, MlflowException) as error:
        raise InputError(f"the {FILE} of group {group.id} cannot be read: {str(error).splitlines()[0]}") from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise InputError(
            f"the {FILE} of group {group.id} was written by another version of trainfare ({field}: {first['msg']})"
        ) from error
