"""Units and directions of a script's metrics, as its experiment declares them and the tag of its run keeps them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

METRIC_SCALES = "platform.metric_scales"
"""Tag of a script's run with the declared `unit` and `better` by metric name, as JSON."""
COLUMN = "metric_scales"
"""Column of that tag in the table of jobs."""
Scales = Mapping[str, Mapping[str, str]]
"""Declared `unit` and `better` by column of the table of jobs."""


def write_scales(scales: Scales) -> str:
    """Return the tag's text."""
    return json.dumps(scales)


def read_scales(text: str | None) -> Scales:
    """Return the declarations; empty if the run has none, or if they are damaged."""
    try:
        scales: Any = json.loads(text or "{}")
    except ValueError:
        return {}
    if not isinstance(scales, dict) or not all(isinstance(each, dict) for each in scales.values()):
        return {}
    return {name.replace(".", "_").replace("/", "_"): each for name, each in scales.items()}


def common_scales(every: list[Scales]) -> Scales:
    """Return the declarations of several runs. A metric with contradicting declarations has an empty one."""
    scales: dict[str, Mapping[str, str]] = {}
    contradicted: set[str] = set()
    for of_run in every:
        for column, scale in of_run.items():
            contradicted |= {column} if scales.setdefault(column, scale) != scale else set()
    return {column: {} if column in contradicted else scale for column, scale in scales.items()}
