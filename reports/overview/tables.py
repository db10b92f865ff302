"""Tables of an overview."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import attrgetter

from reports.model.links import run_url
from reports.model.numbers import figure, money
from reports.model.table import Column, Table, build_table
from reports.overview.costs import JobCosts
from reports.overview.messages import NO_REPORT, arms, command
from reports.overview.overview import Overview, TrackedGroup


def group_table(overview: Overview, tracking_uri: str) -> Table:
    """Return the table of groups. The date links to the group's run, and the answer comes last."""

    def url(group: TrackedGroup) -> str | None:
        return run_url(tracking_uri, group.experiment_id, group.run_id) if group.run_id else None

    columns: list[Column[TrackedGroup]] = [
        Column("date", "date", "UTC", lambda group: f"{group.started_at:%Y-%m-%d %H:%M}", url=url),
        Column("command", "command", "", command, lambda group: group.id or "no group", kind="text"),
        *(_of_group(column) for column in _figures(overview)),
        Column("verdict", "verdict", "", lambda group: group.headline or NO_REPORT, arms, kind="text"),
    ]
    return build_table("Groups", columns, overview.groups, style="settings trials groups")


def cost_table(overview: Overview, name: str, costs: Sequence[JobCosts]) -> Table:
    """Return the table of outcomes and costs by `name`, which is also the first heading."""
    columns = [Column[JobCosts](name, name, "", lambda each: each.label), *_figures(overview)]
    return build_table(f"Costs by {name}", columns, costs)


def _figures(overview: Overview) -> list[Column[JobCosts]]:
    counts = ("jobs", "finished", "failed", "stopped", "running")
    cost = Column[JobCosts]("cost", "cost\nUSD", "USD", lambda each: money(each.usd))
    return [
        *(Column[JobCosts](name, name, "", _count(name)) for name in counts),
        Column("billed", "billed\ns", "s", lambda each: figure(each.billable_instance_seconds)),
        *([cost] if math.isfinite(overview.total.usd) else []),
    ]


def _count(name: str) -> Callable[[JobCosts], str]:
    count = attrgetter(name)
    return lambda costs: f"{count(costs):,}"


def _of_group(column: Column[JobCosts]) -> Column[TrackedGroup]:
    return Column(column.label, column.head, column.unit, lambda group: column.value(group.costs))
