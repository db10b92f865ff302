"""The forms that a report is kept in, and what it is made of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from reports.comparison.comparison import Comparison
from reports.probe.projections import Probes
from reports.sweep.sweep import Sweep


@dataclass(frozen=True, kw_only=True)
class Read:
    """What the tracking server told of a group."""

    table: pd.DataFrame
    """Its jobs, see `query.jobs`."""
    comparison: Comparison
    """The jobs by arm."""
    curves: Mapping[str, pd.DataFrame]
    """`histories` tables of `loss` by run id."""
    environment: Mapping[str, Any]
    """Versions and hardware of the first job that succeeded."""
    tracking_uri: str
    """Where all this was read."""
    missing: tuple[str, ...] = ()
    """A sentence for everything that is not there, or could not be read."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a group of jobs tells, in every form that it is kept in."""

    comparison: Comparison
    """The jobs by arm, and what `terminal.print_report` prints of them."""
    probes: Probes | None
    """What it prints instead of a group of probes."""
    sweep: Sweep | None = None
    """What it prints instead of a sweep."""
    html: str
    """One page that needs nothing beside itself."""
    pngs: dict[str, bytes]
    """Charts by file name."""
    jobs_csv: str
    """One line a job, as `query.jobs` returns them."""
    table: Sequence[Mapping[str, str]] = ()
    """One row an arm, for MLflow's view of tables."""
    summary_json: dict[str, Any]
    """Numbers and verdicts; what is missing or not finite is None."""
    markdown: str
    """Short description for the parent run."""
    missing: tuple[str, ...] = ()
    """What is not in it and should be, a sentence each."""


def json_value(value: Any) -> Any:
    """Return a value with None for every number that is not finite, and lists for tuples."""
    if isinstance(value, dict):
        return {key: json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def saying_what_is_missing(report: Report, missing: Sequence[str]) -> Report:
    """Return a report that says what is missing in its other forms too; its page says it itself."""
    return replace(
        report,
        missing=tuple(missing),
        summary_json={**report.summary_json, "missing": list(missing)},
        markdown=report.markdown + "".join(f"\n- {plain(sentence)}" for sentence in missing),
    )


def table_row(cells: list[str]) -> str:
    """Return a row of a Markdown table."""
    return "| " + " | ".join(map(plain, cells)) + " |"


def plain(text: str) -> str:
    """Return text that Markdown shows as it is, on one line."""
    escaped = "".join(f"\\{char}" if char in r"\`*_[]|#$~" else char for char in " ".join(text.split()))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
