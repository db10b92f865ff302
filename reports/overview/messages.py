"""An overview in words and columns, the same on the page and in the terminal."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from operator import attrgetter

from reports.comparison.columns import Column
from reports.comparison.messages import NONE, durations, figure
from reports.overview.costs import Bill
from reports.overview.overview import Overview, TrackedGroup
from reports.sweep.messages import money

NO_REPORT = "no report yet"
_VERBS = {"compare": "comparison", "probe": "probe", "sweep": "sweep", "train": "training"}


def headline(overview: Overview) -> str:
    """Return what there is, and what was paid for it, in one sentence."""
    bill = overview.total
    if not overview.groups:
        return f"“{overview.name}” holds no jobs."
    seconds = bill.billable_instance_seconds
    long = f" ({durations(seconds)[0]})" if seconds >= 600 else ""
    return f"{_many(bill.jobs, 'job')} took {_paid(bill, long)} in all."


def sentences(overview: Overview) -> list[str]:
    """Return what else there is to know of the whole."""
    told = [f"{_kinds(overview)}."] if overview.groups else []
    if wasted := overview.wasted:
        share = wasted.billable_instance_seconds / (overview.total.billable_instance_seconds or math.inf)
        told.append(f"{_many(wasted.failed, 'job')} failed: {_paid(wasted, f' ({100 * share:.0f} %)')} were wasted.")
    if untold := overview.total.unbilled:
        told.append(f"{_many(untold, 'job')} ended without a billing record.")
    if overview.kept_instance_seconds:
        usd = f" and {money(overview.kept_usd)} USD" if overview.kept_usd else ""
        told.append(
            f"Beside the jobs, machines that stayed for a next one were billed "
            f"{figure(overview.kept_instance_seconds)} instance seconds{usd}."
        )
    return [*told, *_prices(overview)]


def group_columns(overview: Overview) -> list[Column[TrackedGroup]]:
    """Return the columns of the table of groups; the answer is the last."""
    return [
        Column("date", "date", "UTC", lambda group: f"{group.started_at:%Y-%m-%d %H:%M}"),
        Column("command", "command", "", command, lambda group: group.id or "no group"),
        *(_of_group(column) for column in _figures(overview)),
        Column("verdict", "verdict", "", lambda group: group.headline or NO_REPORT, arms),
    ]


def bill_columns(overview: Overview, what: str) -> list[Column[Bill]]:
    """Return the columns of a table of bills, those of each `what`."""
    return [Column(what, what, "", lambda bill: bill.label), *_figures(overview)]


def command(group: TrackedGroup) -> str:
    """Return what trained the group: `compare demo`."""
    return f"{group.verb} {group.experiment}".strip() or NONE


def arms(group: TrackedGroup, most: int = 6) -> str:
    """Return the labels of its arms; a sweep may have hundreds."""
    shown = ", ".join(group.arms[:most])
    return f"{shown} and {len(group.arms) - most:,} more" if len(group.arms) > most else shown


def outcomes(bill: Bill) -> str:
    """Return how many jobs there are and how they ended, those that finished left out: `6 jobs, 1 failed`."""
    others = {"failed": bill.failed, "stopped": bill.stopped, "running": bill.running}
    return ", ".join([_many(bill.jobs, "job"), *(f"{count:,} {end}" for end, count in others.items() if count)])


def _figures(overview: Overview) -> list[Column[Bill]]:
    counts = ("jobs", "finished", "failed", "stopped", "running")
    cost = Column[Bill]("cost", "cost\nUSD", "USD", lambda bill: money(bill.usd))
    return [
        *(Column[Bill](name, name, "", _count(name)) for name in counts),
        Column("billed", "billed\ns", "s", lambda bill: figure(bill.billable_instance_seconds)),
        *([cost] if math.isfinite(overview.total.usd) else []),
    ]


def _count(name: str) -> Callable[[Bill], str]:
    count = attrgetter(name)
    return lambda bill: f"{count(bill):,}"


def _of_group(column: Column[Bill]) -> Column[TrackedGroup]:
    return Column(column.label, column.head, column.unit, lambda group: column.value(group.bill))


def _kinds(overview: Overview) -> str:
    """Return how many commands of each kind there are: `2 comparisons, 1 sweep`."""
    count = Counter(group.verb for group in overview.groups if group.id is not None)
    known = [_many(count[verb], noun) for verb, noun in _VERBS.items() if count[verb]]
    others = sum(count.values()) - sum(count[verb] for verb in _VERBS)
    alone = next((group.bill.jobs for group in overview.groups if group.id is None), 0)
    told = [*known, *([_many(others, "other group")] if others else [])]
    return ", ".join([*told, *([f"{_many(alone, 'job')} of no group"] if alone else [])])


def _prices(overview: Overview) -> list[str]:
    bill = overview.total
    if not overview.prices:
        return []
    without = f", those of {_many(bill.unpriced, 'job')} without a price left out" if bill.unpriced else ""
    return [f"Dollars are counted with {'; '.join(overview.prices)}{without}."]


def _paid(bill: Bill, aside: str) -> str:
    usd = f" and {money(bill.usd)} USD" if math.isfinite(bill.usd) else ""
    return f"{figure(bill.billable_instance_seconds)} billable instance seconds{aside}{usd}"


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
