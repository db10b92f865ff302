"""The report of a group of jobs, read from the tracking server alone."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd
from mlflow import MlflowClient

from tracking import query
from tracking.report import words
from tracking.report.arms import Arm
from tracking.report.columns import columns
from tracking.report.comparison import Comparison, Contrast, compare
from tracking.report.numbers import summary
from tracking.report.page import page
from tracking.report.plots import plots_of


@dataclass(frozen=True, kw_only=True)
class Report:
    """A comparison in every form that it is kept in."""

    comparison: Comparison
    """What `terminal.print_comparison` prints."""
    html: str
    """One page that needs nothing beside itself."""
    pngs: dict[str, bytes]
    """Charts by file name."""
    jobs_csv: str
    """One line a job, as `query.jobs` returns them."""
    summary_json: dict[str, Any]
    """Numbers and verdicts; what is missing or not finite is None."""
    markdown: str
    """Short description for the parent run."""


def render(client: MlflowClient, group: str, title: str) -> Report:
    """Return the report of a group. Raises `TrackingError` when the server does not answer."""
    table = query.jobs(client, group)
    comparison = compare(table, group)
    plots = plots_of(comparison, _curves(client, comparison))
    first = next((job for arm in comparison.arms for job in arm.succeeded), None)
    environment = query.environment(client, first.run_id) if first else {}
    return Report(
        comparison=comparison,
        html=page(comparison, title, plots, client.tracking_uri, environment),
        pngs={f"{plot.name}.png": plot.png for plot in plots},
        jobs_csv=table.to_csv(index=False),
        summary_json=summary_of(comparison),
        markdown=markdown_of(comparison),
    )


def summary_of(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison as strict JSON values."""
    told: dict[str, Any] = _json_value(
        {
            "group": comparison.group,
            "headline": words.headline(comparison),
            "baseline": comparison.baseline.label if comparison.baseline else None,
            "best": comparison.best.arm.label if comparison.best else None,
            "quality_measure": comparison.measure.column if comparison.measure else None,
            "paid_instance_seconds": comparison.paid_seconds,
            "arms": [_arm(arm) for arm in comparison.arms],
            "contrasts": [_contrast(contrast) for contrast in comparison.contrasts],
        }
    )
    return told


def markdown_of(comparison: Comparison) -> str:
    """Return headline, table and verdicts as Markdown."""
    told = columns(comparison)
    rows = [[column.value(arm) for column in told] for arm in comparison.arms]
    heads = [f"{column.label}, {column.unit}" if column.unit else column.label for column in told]
    lines = [f"**{_plain(words.headline(comparison))}**", ""]
    if rows:
        lines += [_row(heads), _row(["---"] + ["---:"] * (len(heads) - 1)), *map(_row, rows), ""]
    for contrast in comparison.contrasts:
        sentence = words.verdict_sentence(contrast, comparison.arms[0])
        lines.append(f"- {_plain(contrast.arm.label)}: *{contrast.verdict.outcome}*. {_plain(sentence)}")
    lines += ["", *map(_plain, words.caveat_sentences(comparison))]
    return "\n".join([*lines, "", "The full report is among the artifacts: `report/report.html`.", ""])


def _curves(client: MlflowClient, comparison: Comparison) -> dict[str, pd.DataFrame]:
    jobs = [job for arm in comparison.arms for job in arm.succeeded]
    return {job.run_id: query.history(client, job.run_id, ["loss"], job.number("training_start_time")) for job in jobs}


def _arm(arm: Arm) -> dict[str, Any]:
    names = sorted({name for job in arm.headline for name in job.numbers})
    summaries = {name: asdict(told) for name in names if (told := arm.summary(name))}
    setup = summary(arm.setup_seconds)
    return {
        "label": arm.label,
        "cache_state": arm.cache_state,
        "jobs": len(arm.jobs),
        "succeeded": len(arm.succeeded),
        "failed": len(arm.failed),
        "repeats": len(arm.headline),
        "setup_seconds": asdict(setup) if setup else None,
        "numbers": summaries,
    }


def _contrast(contrast: Contrast) -> dict[str, Any]:
    return {
        "arm": contrast.arm.label,
        **asdict(contrast.verdict),
        "speed_up": asdict(contrast.speed_up) if contrast.speed_up else None,
        "break_even": {state: asdict(point) for state, point in contrast.break_evens.items()},
    }


def _json_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_value(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(map(_plain, cells)) + " |"


def _plain(text: str) -> str:
    """Return text that Markdown shows as it is, on one line."""
    escaped = "".join(f"\\{char}" if char in r"\`*_[]|#$~" else char for char in " ".join(text.split()))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
