"""Sentences of an overview."""

from __future__ import annotations

import math
from collections import Counter

from reports.model.numbers import NONE, durations, figure, money
from reports.model.wording import counted
from reports.overview.costs import JobCosts
from reports.overview.overview import Overview, TrackedGroup

NO_REPORT = "no report yet"
_VERBS = {"compare": "comparison", "probe": "probe", "sweep": "sweep", "train": "training"}


def headline(overview: Overview) -> str:
    """Return the number of jobs and their cost in one sentence."""
    total = overview.total
    if not overview.groups:
        return f"“{overview.name}” has no jobs."
    seconds = total.billable_instance_seconds
    in_hours = f" ({durations(seconds)[0]})" if seconds >= 600 else ""
    return f"{counted(total.jobs, 'job')} took {_cost(total, in_hours)} in all."


def sentences(overview: Overview) -> list[str]:
    """Return the remarks about the whole experiment."""
    lines = [f"{_kinds(overview)}."] if overview.groups else []
    if wasted := overview.wasted:
        share = wasted.billable_instance_seconds / (overview.total.billable_instance_seconds or math.inf)
        lines.append(f"{counted(wasted.failed, 'job')} failed: {_cost(wasted, f' ({100 * share:.0f} %)')} were wasted.")
    if unbilled := overview.total.unbilled:
        lines.append(f"{counted(unbilled, 'job')} ended without a billing record.")
    if overview.warm_pool_instance_seconds:
        usd = f" and {money(overview.warm_pool_usd)} USD" if overview.warm_pool_usd else ""
        lines.append(
            f"Instances kept ready for the next job were billed a further "
            f"{figure(overview.warm_pool_instance_seconds)} instance seconds{usd}."
        )
    return [*lines, *_prices(overview)]


def command(group: TrackedGroup) -> str:
    """Return the command that started the group, such as `compare demo`."""
    return f"{group.verb} {group.experiment}".strip() or NONE


def arms(group: TrackedGroup, most: int = 6) -> str:
    """Return the labels of the group's arms, at most `most`, because a sweep may have hundreds."""
    shown = ", ".join(group.arms[:most])
    return f"{shown} and {len(group.arms) - most:,} more" if len(group.arms) > most else shown


def outcomes(costs: JobCosts) -> str:
    """Return the number of jobs and their outcomes other than finished: `6 jobs, 1 failed`."""
    others = {"failed": costs.failed, "stopped": costs.stopped, "running": costs.running}
    return ", ".join([counted(costs.jobs, "job"), *(f"{count:,} {name}" for name, count in others.items() if count)])


def details(group: TrackedGroup) -> str:
    """Return start, outcomes, cost and id of a group on one line."""
    costs = group.costs
    usd = f", {money(costs.usd)} USD" if costs.usd >= 0 else ""
    cost = f"{figure(costs.billable_instance_seconds)} s{usd}"
    return f"{group.started_at:%Y-%m-%d %H:%M}  {outcomes(costs)}  {cost}  {group.id or 'no group'}"


def _kinds(overview: Overview) -> str:
    """Return the number of commands of each kind: `2 comparisons, 1 sweep`."""
    count = Counter(group.verb for group in overview.groups if group.id is not None)
    known = [counted(count[verb], noun) for verb, noun in _VERBS.items() if count[verb]]
    others = sum(count.values()) - sum(count[verb] for verb in _VERBS)
    ungrouped = next((group.costs.jobs for group in overview.groups if group.id is None), 0)
    parts = [*known, *([counted(others, "other group")] if others else [])]
    return ", ".join([*parts, *([f"{counted(ungrouped, 'job')} without a group"] if ungrouped else [])])


def _prices(overview: Overview) -> list[str]:
    if not overview.prices:
        return []
    unpriced = overview.total.unpriced
    excluded = f" They exclude {counted(unpriced, 'job')} without a price." if unpriced else ""
    return [f"Dollars are based on these prices: {'; '.join(overview.prices)}.{excluded}"]


def _cost(costs: JobCosts, note: str) -> str:
    usd = f" and {money(costs.usd)} USD" if math.isfinite(costs.usd) else ""
    return f"{figure(costs.billable_instance_seconds)} billable instance seconds{note}{usd}"
