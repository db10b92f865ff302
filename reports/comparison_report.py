"""The report of a comparison."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from judging.summaries import summary
from reports.charts.report_charts import plots_of
from reports.comparison import messages
from reports.comparison.arms import Arm
from reports.comparison.columns import columns
from reports.comparison.comparison import Comparison, Contrast
from reports.comparison.published_figures import published_of
from reports.formats.html import page
from reports.formats.report import Read, Report, json_value, plain, table_row


def comparison_report(read: Read, title: str) -> Report:
    """Return the report with its verdicts."""
    plots = plots_of(read.comparison, read.curves)
    return Report(
        comparison=read.comparison,
        probes=None,
        html=page(
            read.comparison, title, plots, read.tracking_uri, read.environment, published_of(read.table), read.missing
        ),
        pngs={f"{plot.name}.png": plot.png for plot in plots},
        jobs_csv=read.table.to_csv(index=False),
        table=table_of(read.comparison),
        summary_json=summary_of(read.comparison),
        markdown=markdown_of(read.comparison),
    )


def summary_of(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison as strict JSON values."""
    told: dict[str, Any] = json_value(
        {
            "group": comparison.group,
            "headline": messages.headline(comparison),
            "baseline": comparison.baseline.label if comparison.baseline else None,
            "best": comparison.best.arm.label if comparison.best else None,
            "quality_measure": comparison.measure.column if comparison.measure else None,
            "paid_instance_seconds": comparison.paid_seconds,
            "arms": [_arm(arm) for arm in comparison.arms],
            "contrasts": [contrast_json(contrast) for contrast in comparison.contrasts],
        }
    )
    return told


def markdown_of(comparison: Comparison) -> str:
    """Return headline, table and verdicts as Markdown."""
    rows = table_of(comparison)
    lines = [f"**{plain(messages.headline(comparison))}**", ""]
    if rows:
        heads = list(rows[0])
        lines += [table_row(heads), table_row(["---"] + ["---:"] * (len(heads) - 1))]
        lines += [*(table_row(list(row.values())) for row in rows), ""]
    for contrast in comparison.contrasts:
        told = " ".join(messages.contrast_sentences(contrast, comparison.arms[0]))
        lines.append(f"- {plain(contrast.arm.label)}: *{contrast.verdict.outcome}*. {plain(told)}")
    if comparison.jobs:
        lines += ["", plain(" ".join([messages.spend_sentence(comparison), *messages.caveat_sentences(comparison)]))]
    return "\n".join([*lines, "", "The full report is among the artifacts: `report/report.html`.", ""])


def table_of(comparison: Comparison) -> list[dict[str, str]]:
    """Return one row an arm: what the page's table shows, by column and unit, and the verdict."""
    verdicts = {contrast.arm.label: contrast.verdict.outcome for contrast in comparison.contrasts}
    return [
        {column.title: column.value(arm) for column in columns(comparison)}
        | ({"verdict": verdicts.get(arm.label, "baseline")} if verdicts else {})
        for arm in comparison.arms
    ]


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


def contrast_json(contrast: Contrast) -> dict[str, Any]:
    """Return a verdict with its numbers, not yet strict JSON."""
    return {
        "arm": contrast.arm.label,
        **asdict(contrast.verdict),
        "speed_up": asdict(contrast.speed_up) if contrast.speed_up else None,
        "break_even": {state: asdict(point) for state, point in contrast.break_evens.items()},
    }
