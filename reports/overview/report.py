"""The report of an overview."""

from __future__ import annotations

import csv
import io

from reports.model.blocks import Block, Definition, Definitions, Item, Items, Sentences, Text
from reports.model.report import Report, Section
from reports.overview import messages
from reports.overview.overview import Overview, TrackedGroup
from reports.overview.tables import cost_table, group_table

MAX_GROUPS = 20
"""Number of groups listed in the terminal; the page lists all groups."""
_DEFINITIONS = (
    Definition(
        "Date",
        "Start of the command. Costs by month use the month in which a job's run started. All times are UTC.",
    ),
    Definition(
        "Verdict",
        f"The answer of the group's latest report. If it says “{messages.NO_REPORT}”, make one with “trainfare report "
        "--group ID”.",
    ),
    Definition(
        "Billed",
        "Billable seconds times instances, as the service bills them, of all jobs with a billing record, whatever "
        "their outcome.",
    ),
    Definition(
        "Failed, stopped",
        "The cost of a failed job counts as wasted. The cost of a job that a person or a sweep stopped does not. "
        "Deleted runs are not counted.",
    ),
)


def overview_report(overview: Overview, tracking_uri: str) -> Report:
    """Return the report; its `rows_csv` has one line per group."""
    headline, remarks = messages.headline(overview), Sentences(tuple(messages.sentences(overview)))
    months = cost_table(overview, "month", overview.months)
    statuses = cost_table(overview, "status", overview.statuses)
    sections = (
        Section("All comparisons, probes and sweeps, newest first", (group_table(overview, tracking_uri),)),
        Section("Costs by month", (months,)),
        Section("Costs by outcome", (statuses,)),
        Section("How each number is measured", (Definitions(_DEFINITIONS),)),
    )
    has_groups = bool(overview.groups)
    tables: tuple[Block, ...] = (*_listed(overview), months, statuses) if has_groups else ()
    return Report(
        group="",
        title=f"Overview of {overview.name}",
        headline=headline,
        answer=(remarks,),
        sections=sections if has_groups else (),
        terminal=(*tables, Text(headline, "strong"), remarks),
        summary={},
        rows_csv=_csv(overview),
    )


def _listed(overview: Overview) -> tuple[Block, ...]:
    """Return the newest groups as a list, which fits a terminal better than a table."""
    items = Items(tuple(_item(group) for group in overview.groups[:MAX_GROUPS]))
    left_out = len(overview.groups) - MAX_GROUPS
    more = Text(f"... and {left_out:,} older groups; the page lists them all.")
    return (items, more) if left_out > 0 else (items,)


def _item(group: TrackedGroup) -> Item:
    texts = (group.headline or messages.NO_REPORT, messages.arms(group))
    return Item(label=f"{messages.command(group)}  {messages.details(group)}", texts=tuple(map(Text, texts)))


def _csv(overview: Overview) -> str:
    out = io.StringIO()
    lines = [_line(group) for group in overview.groups]
    writer = csv.DictWriter(out, list(lines[0]) if lines else ["group"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return out.getvalue()


def _line(group: TrackedGroup) -> dict[str, object]:
    costs = group.costs
    counts = {name: getattr(costs, name) for name in ("jobs", "finished", "failed", "stopped", "running", "unbilled")}
    return {
        "group": group.id,
        "run_id": group.run_id,
        "started_at": group.started_at.isoformat(timespec="seconds"),
        "verb": group.verb,
        "experiment": group.experiment,
        "arms": "; ".join(group.arms),
        "headline": group.headline,
        **counts,
        "billable_instance_seconds": costs.billable_instance_seconds,
        "usd": costs.usd if costs.usd >= 0 else None,
    }
