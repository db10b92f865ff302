"""The report of a group of probes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from reports.charts.report_charts import plots_of_probes
from reports.formats.html import probes_page
from reports.formats.report import Read, Report, json_value, plain, table_row
from reports.probe import messages
from reports.probe.projections import Probes, probes_of


def probe_report(read: Read, title: str) -> Report:
    """Return the report with its projections."""
    probes = probes_of(read.table, read.comparison.group, read.curves)
    plots = plots_of_probes(probes, read.comparison, read.curves)
    return Report(
        comparison=read.comparison,
        probes=probes,
        html=probes_page(probes, title, plots, read.tracking_uri, read.environment, read.missing),
        pngs={f"{plot.name}.png": plot.png for plot in plots},
        jobs_csv=read.table.to_csv(index=False),
        summary_json=summary_of(probes),
        markdown=markdown_of(probes),
    )


def summary_of(probes: Probes) -> dict[str, Any]:
    """Return the projections as strict JSON values."""
    told: dict[str, Any] = json_value(
        {
            "group": probes.group,
            "headline": messages.headline(probes),
            "unit_of_cost": probes.unit,
            "common_samples": probes.common_samples,
            "arms": [
                {
                    "label": each.arm.label,
                    "seconds": asdict(each.seconds),
                    "cost": asdict(each.paid),
                    "loss": each.loss,
                    "samples_measured": each.job.number("samples"),
                }
                for each in probes.projected
            ],
            "without_projection": [arm.label for arm in probes.without],
        }
    )
    return told


def markdown_of(probes: Probes) -> str:
    """Return headline, table and what else there is to know as Markdown."""
    told = messages.columns(probes)
    heads = [column.title for column in told]
    lines = [f"**{plain(messages.headline(probes))}**", ""]
    if probes.projected:
        rows = [table_row([column.value(each) for column in told]) for each in probes.projected]
        lines += [table_row(heads), table_row(["---"] + ["---:"] * (len(heads) - 1)), *rows, ""]
    lines += [f"- {plain(sentence)}" for sentence in messages.sentences(probes)]
    return "\n".join(
        [*lines, "", messages.CAVEAT, "", "The full report is among the artifacts: `report/report.html`.", ""]
    )
