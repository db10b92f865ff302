"""Jobs of any groups as the arms of one comparison: the setting of each, and what sets it apart. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from reports.comparison.arms import job_of
from reports.comparison.equal_work import image_version

_PLACES = ("instance_type", "device")
_OF_THE_RUN = frozenset({"job_name", "hp_seed", "hp_compiler", "job_instance_type"})
"""Columns that differ between repeats, or that stand in a tag as well."""
_NAMES = {
    "hp_batch_size": "batch",
    "hp_learning_rate": "learning rate",
    "job_devices": "devices",
    "job_instance_count": "machines",
    "data_key": "data",
}
_SHOWN_CHARACTERS = 12
"""Of a key of data, which is a hash."""


def with_common_arms(table: pd.DataFrame) -> pd.DataFrame:
    """Return `query.jobs`' table with arms that are told apart by their settings, whatever their groups called them.

    Jobs of one group keep the arms that they have. Data, image and device belong to a setting too: jobs that differ in
    one of these are never averaged. A parameter that a run does not tell sets it apart from none.
    """
    if table["group"].notna().all() and table["group"].nunique() <= 1:
        return table
    settings = [_setting(row) for row in table.to_dict("records")]
    labels = _labels(settings)
    flagged = {label for label, row in zip(labels, table["baseline"], strict=True) if row == "true"}
    numbers: dict[str, int] = {}
    repeats = []
    for label in labels:
        repeats.append(str(numbers.get(label, 0)))
        numbers[label] = numbers.get(label, 0) + 1
    baselines = ["true" if flagged == {label} else "false" for label in labels]
    # What a job was for in a sweep of its own, it is not for here.
    without_role = {"role": None} if "role" in table else {}
    return table.assign(arm=labels, repeat=repeats, baseline=baselines, **without_role)


def _setting(row: Mapping[Any, Any]) -> dict[str, str]:
    """Return what was asked of a job, and where and on what it ran."""
    job = job_of(row)
    names = [str(name) for name in row if str(name).startswith(("hp_", "job_")) and name not in _OF_THE_RUN]
    asked = {name: text for name in names if (text := _text(row[name]))}
    told = {name: job.text.get(name) for name in (*_PLACES, "data_key")}
    image = job.text.get("versions") or image_version(job)
    found = {"compiler": job.text.get("compiler"), **asked, **told, "image": image}
    return {name: text for name, text in found.items() if text}


def _labels(settings: Sequence[Mapping[str, str]]) -> list[str]:
    names = dict.fromkeys(name for setting in settings for name in setting)
    telling = [name for name in names if len({setting[name] for setting in settings if name in setting}) > 1]
    # A machine's device says no more than its type.
    telling = [name for name in telling if name != "device" or "instance_type" not in telling]
    telling = sorted(telling or ["compiler"], key=lambda name: name != "compiler")
    return [
        ", ".join(_part(name, setting[name]) for name in telling if name in setting) or "unnamed"
        for setting in settings
    ]


def _part(name: str, value: str) -> str:
    if name in {"compiler", *_PLACES}:
        return value
    known = _NAMES.get(name) or name.removeprefix("hp_").removeprefix("job_").replace("_", " ")
    return f"{known} {value[:_SHOWN_CHARACTERS] if name == 'data_key' else value}"


def _text(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:g}"
    return "" if value is None else str(value)
