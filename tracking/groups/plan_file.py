"""Artifacts and tags of a group's run: plan, looks, results of a sweep, units of metrics.

With the plan any launcher can follow the group and start missing jobs.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlflow.exceptions import MlflowException
from pydantic import TypeAdapter, ValidationError

from judging.design import RULES, Design
from state.digests import digest
from tracking.groups.group import Group
from tracking.groups.planned_job import PlannedJob
from tracking.server.store import Store
from training.contract.errors import InputError
from training.contract.frozen import broken_rule, dotted

PLAN_FILE = "plan.json"
SWEEP_FILE = "sweep.json"
DESIGN = "platform.design"
METRIC_SCALES = "platform.metric_scales"
"""Tag of a script's run with the declared `unit` and `better` by metric name, as JSON."""
SCALES_COLUMN = "metric_scales"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All jobs of one command."""

    parallel: int
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
    planned_here = _digest_file(home, group, text)
    planned_here.parent.mkdir(parents=True, exist_ok=True)
    planned_here.touch()
    if group.continued and any(
        each.path == PLAN_FILE for each in store.call(store.client.list_artifacts, group.run_id)
    ):
        return
    store.call(store.client.log_text, group.run_id, text.decode(), PLAN_FILE)


def read_plan(store: Store, group: Group, home: Path) -> tuple[Plan, bool]:
    """Return the plan of a group, and whether the state folder `home` has its digest.

    Everyone who may edit the run can change the plan. Raises InputError if it is missing or cannot be read.
    """
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = store.call(store.client.download_artifacts, group.run_id, PLAN_FILE, folder)
            text = Path(path).read_bytes()
            return _PLAN.validate_json(text), _digest_file(home, group, text).exists()
    except (OSError, MlflowException) as error:
        raise InputError(f"the {PLAN_FILE} of group {group.id} cannot be read: {str(error).splitlines()[0]}") from error
    except ValidationError as error:
        first = error.errors()[0]
        problem = f"{dotted(first['loc'])} {broken_rule(first)}"
        raise InputError(
            f"the {PLAN_FILE} of group {group.id} was written by another version of trainfare ({problem}): "
            "run the command that started the group again"
        ) from error


def _digest_file(home: Path, group: Group, text: bytes) -> Path:
    """Return the empty file that exists if a command that used this state folder planned this group in this way."""
    return home / "plans" / digest(group.id.encode() + b"\0" + text)


def write_sweep(store: Store, group: Group, results: Mapping[str, Any]) -> None:
    """Write the results to the group's parent run; numbers that are not finite become null."""
    text = json.dumps(json_value(results), indent=1, ensure_ascii=False)
    store.call(store.client.log_text, group.run_id, text, SWEEP_FILE)


def json_value(value: Any) -> Any:
    """Return a value with None in place of every non-finite number, and lists in place of tuples."""
    if isinstance(value, Mapping):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


_DESIGN = TypeAdapter(Design)


def write_design(design: Design) -> str:
    return _DESIGN.dump_json(design).decode()


def read_design(tags: Mapping[str, str]) -> Design | None:
    """Return the design in a run's tags; None for a group that ran all its repeats.

    Raises `InputError` for a damaged tag or unknown rules: other looks or rules could give another verdict.
    """
    if DESIGN not in tags:
        return None
    try:
        design = _DESIGN.validate_json(tags[DESIGN])
    except ValidationError as error:
        raise _unreadable(tags, "it must be a JSON object as `trainfare compare` writes it") from error
    if design.rules != RULES:
        raise _unreadable(tags, f"its rules have version {design.rules}, and this version of trainfare has {RULES}")
    return design


def _unreadable(tags: Mapping[str, str], rule: str) -> InputError:
    group = tags.get("platform.group", "unknown")
    return InputError(
        f"tag {DESIGN} of group '{group}' is '{tags[DESIGN]}': {rule}. Restore the tag in MLflow; the artifact "
        "plan.json of a comparison's run holds its value as `design`."
    )


Scales = Mapping[str, Mapping[str, str]]
"""Declared `unit` and `better` by column of the table of jobs."""


def read_scales(text: str | None) -> Scales:
    scales: Scales = json.loads(text or "{}")
    return {name.replace(".", "_").replace("/", "_"): each for name, each in scales.items()}


def common_scales(every: list[Scales]) -> Scales:
    """Return the declarations of several runs. A metric with contradicting declarations has an empty one."""
    scales: dict[str, Mapping[str, str]] = {}
    for column, scale in (item for of_run in every for item in of_run.items()):
        scales[column] = scale if scales.get(column, scale) == scale else {}
    return scales
