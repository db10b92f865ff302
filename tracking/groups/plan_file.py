"""Plan of a group, stored with its parent run. With it any launcher can follow the group and start missing jobs."""

from __future__ import annotations

import hashlib
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
    store: Store, group: Group, jobs: Sequence[PlannedJob], parallel: int, home: Path, design: Design | None = None
) -> None:
    """Record the plan's digest in the state folder `home`. Write the plan to the parent run, unless it has one."""
    text = _PLAN.dump_json(Plan(parallel=parallel, jobs=tuple(jobs), design=design), indent=1)
    digest = _digest_file(home, group, text)
    digest.parent.mkdir(parents=True, exist_ok=True)
    digest.touch()
    if group.continued and any(each.path == FILE for each in store.call(store.client.list_artifacts, group.run_id)):
        return
    store.call(store.client.log_text, group.run_id, text.decode(), FILE)


def read_plan(store: Store, group: Group, home: Path) -> tuple[Plan, bool]:
    """Return the plan of a group, and whether the state folder `home` has its digest.

    Everyone who may edit the run can change the plan. Raises InputError if it is missing or cannot be read.
    """
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = store.call(store.client.download_artifacts, group.run_id, FILE, folder)
            text = Path(path).read_bytes()
            return _PLAN.validate_json(text), _digest_file(home, group, text).exists()
    except (OSError, MlflowException) as error:
        raise InputError(f"the {FILE} of group {group.id} cannot be read: {str(error).splitlines()[0]}") from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise InputError(
            f"the {FILE} of group {group.id} was written by another version of trainfare ({field}: {first['msg']}): "
            "run the command that started the group again"
        ) from error


def _digest_file(home: Path, group: Group, text: bytes) -> Path:
    """Return the empty file that exists if a command that used this state folder planned this group in this way."""
    return home / "plans" / hashlib.sha256(group.id.encode() + b"\0" + text).hexdigest()
