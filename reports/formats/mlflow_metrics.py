"""A report's figures as metrics of its MLflow run.

MLflow groups charts by the part of a metric's name before the last `/`: one section per figure, one chart per arm.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator

from reports.model.report import Metric, Report

MAX_LABELS = 50
"""Largest number of arms with metrics; a section with more charts would be unreadable."""
_MAX_CHARACTERS = 150
"""Length at which an arm's label is cut in a metric's name; MLflow allows 250 characters for the whole name."""
_SUFFIXES = ("", " low", " high")
"""Suffixes of an interval's metrics."""


def run_metrics(report: Report) -> dict[str, float]:
    """Return the finite figures, by metric names that MLflow accepts."""
    labels = list(dict.fromkeys(metric.label for metric in report.metrics if metric.label))[:MAX_LABELS]
    names = {"": "", **{label: f"/{name}" for label, name in metric_labels(labels).items()}}
    values = (pair for metric in report.metrics if metric.label in names for pair in _values(metric, names))
    return {name: value for name, value in values if math.isfinite(value)}


def metric_labels(labels: Iterable[str]) -> dict[str, str]:
    """Return each label in a form for metric names: letters, digits, `_`, `-`, `.` and single spaces.

    This is the rule of `mlflow.utils.validation`, without the colon, which MLflow allows only on some systems. The
    results differ even in databases that ignore case, and after the suffix of an interval's end is added.
    """
    names: dict[str, str] = {}
    used: set[str] = set()
    for label in labels:
        plain, number = _plain(label), 1
        name = plain
        while used & (variants := {f"{name}{suffix}".casefold() for suffix in _SUFFIXES}):
            number += 1
            name = f"{plain} {number}"
        used |= variants
        names[label] = name
    return names


def _values(metric: Metric, names: dict[str, str]) -> Iterator[tuple[str, float]]:
    name = f"{metric.name}{names[metric.label]}"
    yield name, metric.value
    if metric.interval:
        low, high = metric.interval
        yield from ((f"{name} low", low), (f"{name} high", high))


def _plain(label: str) -> str:
    text = " ".join(re.sub(r"[^\w.\-]+", " ", label.replace("×", "x")).split())
    # A name that consists of dots would be a folder.
    return text[:_MAX_CHARACTERS].strip(" .") or "unnamed"
