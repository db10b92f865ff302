"""Arms for jobs from any groups, labelled by the settings in which they differ. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from reports.comparison.arms import job_of
from reports.comparison.equal_work import image_version

_MACHINE = ("instance_type", "device")
_PARAMETERS = ("hp_", "job_model_", "job_devices", "job_instance_count", "job_threads")
"""Beginnings of the columns of parameters. Columns of tags such as `job_arn` identify a job and are not settings."""
_IGNORED = frozenset({"hp_seed", "hp_compiler"})
"""Columns that differ between repeats, or whose value is also in a tag."""
_NAMES = {
    "hp_batch_size": "batch",
    "hp_learning_rate": "learning rate",
    "job_devices": "devices",
    "job_instance_count": "instances",
    "data_key": "data",
}
_SHOWN_CHARACTERS = 12
"""Number of characters shown of a data key, which is a hash."""


def with_common_arms(table: pd.DataFrame) -> pd.DataFrame:
    """Return a `job_tables.jobs` table with arms renamed after their settings, independent of their groups' labels.

    Jobs of a single group keep their arms. Data, image and device are part of a setting: jobs that differ in one of
    these are never averaged. A parameter distinguishes runs only if at least two different values were recorded.
    """
    if table["group"].notna().all() and table["group"].nunique() <= 1:
        return table
    settings = [setting_of(row) for row in table.to_dict("records")]
    labels = _labels(settings)
    flagged = {label for label, row in zip(labels, table["baseline"], strict=True) if row == "true"}
    numbers: dict[str, int] = {}
    repeats = []
    for label in labels:
        repeats.append(str(numbers.get(label, 0)))
        numbers[label] = numbers.get(label, 0) + 1
    baselines = ["true" if flagged == {label} else "false" for label in labels]
    # A role is meaningful only within its sweep.
    without_role = {"role": None} if "role" in table else {}
    return table.assign(arm=labels, repeat=repeats, baseline=baselines, **without_role)


def setting_of(row: Mapping[Any, Any]) -> dict[str, str]:
    """Return a job's parameters, with its machine, data and image."""
    job = job_of(row)
    names = [str(name) for name in row if str(name).startswith(_PARAMETERS) and name not in _IGNORED]
    parameters = {name: text for name in names if (text := _text(row[name]))}
    tags = {name: job.text.get(name) for name in (*_MACHINE, "data_key")}
    image = job.text.get("versions") or image_version(job)
    setting = {"compiler": job.text.get("compiler"), **parameters, **tags, "image": image}
    return {name: text for name, text in setting.items() if text}


def _labels(settings: Sequence[Mapping[str, str]]) -> list[str]:
    names = dict.fromkeys(name for setting in settings for name in setting)
    differing = [name for name in names if len({setting[name] for setting in settings if name in setting}) > 1]
    # The instance type implies the device.
    differing = [name for name in differing if name != "device" or "instance_type" not in differing]
    differing = sorted(differing or ["compiler"], key=lambda name: name != "compiler")
    return [
        ", ".join(_part(name, setting[name]) for name in differing if name in setting) or "unnamed"
        for setting in settings
    ]


def _part(name: str, value: str) -> str:
    if name in {"compiler", *_MACHINE}:
        return value
    known = _NAMES.get(name) or name.removeprefix("hp_").removeprefix("job_").replace("_", " ")
    return f"{known} {value[:_SHOWN_CHARACTERS] if name == 'data_key' else value}"


def _text(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:g}"
    return "" if value is None else str(value)
