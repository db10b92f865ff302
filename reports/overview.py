"""The overview of a whole MLflow experiment: the answer of every group and the cost of all jobs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

import pandas as pd
from mlflow.entities import Run

from reports.model.numbers import NONE, counted, durations, figure, money, run_url
from reports.model.report import (
    Block,
    Cell,
    Column,
    Definition,
    Item,
    Items,
    Report,
    Section,
    Sentences,
    Table,
    Text,
    build_table,
    measured_section,
)
from tracking.queries.job_tables import job_key
from tracking.queries.metric_histories import number

STATUSES = {"FINISHED": "finished", "FAILED": "failed", "KILLED": "stopped"}
"""Outcomes by MLflow status; a job with any other status is still running."""
RUNNING = "running"
OUTCOMES = (*STATUSES.values(), RUNNING)
NO_REPORT = "no report yet"
_COUNTED = Definition(
    "Jobs",
    f"All whose runs are not deleted, by the month in which the run started (UTC). “{NO_REPORT}”: make one with "
    "“trainfare report --group ID”.",
)
MAX_GROUPS = 20
"""Number of groups listed in the terminal; the page lists all groups."""
_VERBS = {"compare": "comparison", "probe": "probe", "sweep": "sweep", "train": "training"}
Key = TypeVar("Key")


@dataclass(frozen=True, kw_only=True)
class JobCosts:
    """Outcomes and costs of a set of jobs."""

    label: str
    """Name of these jobs, such as a month."""
    counts: Mapping[str, int]
    """Jobs by outcome: finished, failed, stopped or running."""
    billable_instance_seconds: float
    """Sum over the jobs with a billing record, whatever their outcome."""
    usd: float
    """Sum over the jobs with a price; NaN if no job has a price."""
    unbilled: int
    """Jobs that ended without a billing record."""
    unpriced: int
    """Jobs with a billing record but no price."""

    @property
    def jobs(self) -> int:
        return sum(self.counts.values())


@dataclass(frozen=True, kw_only=True)
class TrackedGroup:
    """The jobs of one command."""

    id: str | None
    """None for jobs without a group."""
    run_id: str | None
    """The group's parent run, or None if it was deleted."""
    experiment_id: str
    started_at: datetime
    """Start of the group's first run, UTC."""
    verb: str
    """train, compare, probe or sweep; empty if the parent run does not record it."""
    experiment: str
    """Name of the experiment file; empty if the parent run does not record it."""
    headline: str | None
    """Answer of the group's latest report; None if no report was made."""
    arms: tuple[str, ...]
    """Labels of the arms, in the order in which they started."""
    costs: JobCosts


@dataclass(frozen=True, kw_only=True)
class Overview:
    """An MLflow experiment."""

    name: str
    experiment_id: str
    groups: tuple[TrackedGroup, ...]
    """Newest first."""
    total: JobCosts
    months: tuple[JobCosts, ...]
    """By the month in which a job's run started (UTC), newest first; labels such as 2026-11."""
    statuses: tuple[JobCosts, ...]
    """By outcome, without outcomes that no job has."""
    prices: tuple[str, ...]
    """Source and date of every price that the dollars are based on."""
    warm_pool_instance_seconds: float
    """Billed in addition to the jobs for instances kept ready for the next job."""
    warm_pool_usd: float

    @property
    def wasted(self) -> JobCosts | None:
        """Costs of failed jobs, excluding jobs that a person or a sweep stopped."""
        return next((costs for costs in self.statuses if costs.label == "failed"), None)


def overview_of(runs: Iterable[Run], name: str, experiment_id: str) -> Overview:
    """Return the overview of an experiment's runs, which must be ordered by age, oldest first.

    Runs that are neither jobs nor groups are ignored, and so are further runs of the same job.
    """
    rows: dict[object, dict[str, object]] = {}
    parents: dict[str, list[Run]] = {}
    for run in runs:
        kind, group = run.data.tags.get("platform.kind"), run.data.tags.get("platform.group")
        if kind == "job":
            rows.setdefault(job_key(run) or run.info.run_id, _row(run))
        elif kind == "group" and group:
            parents.setdefault(group, []).append(run)
    jobs = pd.DataFrame(rows.values(), columns=_COLUMNS)
    members: dict[str | None, pd.DataFrame] = dict.fromkeys(parents, jobs[:0])
    members |= {id if isinstance(id, str) else None: own for id, own in jobs.groupby("group", sort=False, dropna=False)}
    groups = [_group(group, experiment_id, parents.get(group or "", []), own) for group, own in members.items()]
    by_month, by_status = ({str(label): own for label, own in jobs.groupby(name)} for name in ("month", "status"))
    return Overview(
        name=name,
        experiment_id=experiment_id,
        groups=tuple(sorted(groups, key=lambda group: group.started_at, reverse=True)),
        total=_costs_of("all", jobs),
        months=tuple(_costs_of(month, by_month[month]) for month in sorted(by_month, reverse=True)),
        statuses=tuple(_costs_of(each, by_status[each]) for each in OUTCOMES if each in by_status),
        prices=tuple(sorted(jobs["price"].dropna().unique())),
        warm_pool_instance_seconds=float(jobs["warm_pool_instance_seconds"].sum()),
        warm_pool_usd=float(jobs["warm_pool_usd"].sum()),
    )


def _group(id: str | None, experiment_id: str, parents: Sequence[Run], jobs: pd.DataFrame) -> TrackedGroup:
    # If a launcher died and a second one resumed its group, the second launcher's run is the parent.
    current = [run for run in parents if run.data.tags.get("platform.group_state") != "continued"]
    parent = (current or parents)[-1] if parents else None
    tags = parent.data.tags if parent else {}
    return TrackedGroup(
        id=id,
        run_id=parent.info.run_id if parent else None,
        experiment_id=experiment_id,
        started_at=min([*map(_started_at, parents), *jobs["started_at"]]),
        verb=tags.get("platform.verb", ""),
        experiment=tags.get("platform.experiment", ""),
        headline=tags.get("platform.headline"),
        arms=tuple(jobs["arm"].unique()),
        costs=_costs_of(id or "", jobs),
    )


_COSTS = ("billable_instance_seconds", "usd", "warm_pool_instance_seconds", "warm_pool_usd")
_COLUMNS = ["group", "arm", "status", "started_at", "month", "price", *_COSTS]


def _row(run: Run) -> dict[str, object]:
    """Return what an overview needs of a job. A cost that is missing or cannot be true is NaN."""
    tags, started_at = run.data.tags, _started_at(run)
    costs = {name: number(run.data.metrics.get(f"cost/{name}", math.nan)) for name in _COSTS}
    return {
        "group": tags.get("platform.group"),
        "arm": tags.get("platform.arm") or "unnamed",
        "status": STATUSES.get(run.info.status, RUNNING),
        "started_at": started_at,
        "month": f"{started_at:%Y-%m}",
        "price": ", ".join(filter(None, map(tags.get, ("platform.price_source", "platform.price_date")))) or None,
        **{name: cost if 0 <= cost < math.inf else math.nan for name, cost in costs.items()},
    }


def _costs_of(label: str, jobs: pd.DataFrame) -> JobCosts:
    seconds, usd = jobs["billable_instance_seconds"], jobs["usd"]
    return JobCosts(
        label=label,
        counts={status: int((jobs["status"] == status).sum()) for status in OUTCOMES},
        billable_instance_seconds=math.fsum(seconds.dropna()),
        usd=math.fsum(usd.dropna()) if usd.notna().any() else math.nan,
        unbilled=int(((jobs["status"] != RUNNING) & seconds.isna()).sum()),
        unpriced=int((seconds.notna() & usd.isna()).sum()),
    )


def _started_at(run: Run) -> datetime:
    return datetime.fromtimestamp((run.info.start_time or 0) / 1000, UTC)


def overview_report(overview: Overview, tracking_uri: str) -> Report:
    """Return the report; its `rows_csv` has one line per group."""
    headline, remarks = _headline(overview), Sentences(tuple(_sentences(overview)))
    months = _cost_table(overview, "month", overview.months)
    statuses = _cost_table(overview, "status", overview.statuses)
    sections = (
        Section("All comparisons, probes and sweeps, newest first", (_group_table(overview, tracking_uri),)),
        Section("Costs by month", (months,)),
        Section("Costs by outcome", (statuses,)),
    )
    has_groups = bool(overview.groups)
    tables: tuple[Block, ...] = (*_listed(overview), months, statuses) if has_groups else ()
    return Report(
        group="",
        title=f"Overview of {overview.name}",
        headline=headline,
        answer=(remarks,),
        sections=(*sections, measured_section(_COUNTED)) if has_groups else (),
        terminal=(*tables, Text(headline, "strong"), remarks),
        summary={},
        rows_csv=_csv(overview),
    )


def _listed(overview: Overview) -> tuple[Block, ...]:
    """Return the newest groups as a list, which fits a terminal better than a table."""
    items = Items(
        tuple(
            Item(
                label=f"{_command(group)}  {_details(group)}",
                texts=(Text(group.headline or NO_REPORT), Text(_arms(group))),
            )
            for group in overview.groups[:MAX_GROUPS]
        )
    )
    left_out = len(overview.groups) - MAX_GROUPS
    more = Text(f"... and {left_out:,} older groups; the page lists them all.")
    return (items, more) if left_out > 0 else (items,)


def _csv(overview: Overview) -> str:
    lines = [
        {
            "group": group.id,
            "run_id": group.run_id,
            "started_at": group.started_at.isoformat(timespec="seconds"),
            "verb": group.verb,
            "experiment": group.experiment,
            "arms": "; ".join(group.arms),
            "headline": group.headline,
            "jobs": group.costs.jobs,
            **group.costs.counts,
            "unbilled": group.costs.unbilled,
            "billable_instance_seconds": group.costs.billable_instance_seconds,
            "usd": group.costs.usd,
        }
        for group in overview.groups
    ]
    return pd.DataFrame(lines).to_csv(index=False)


def _headline(overview: Overview) -> str:
    """Return the number of jobs and their cost in one sentence."""
    total = overview.total
    if not overview.groups:
        return f"“{overview.name}” has no jobs."
    seconds = total.billable_instance_seconds
    in_hours = f" ({durations(seconds)[0]})" if seconds >= 600 else ""
    return f"{counted(total.jobs, 'job')} took {_cost_text(total, in_hours)} in all."


def _sentences(overview: Overview) -> list[str]:
    count = Counter(group.verb for group in overview.groups if group.id is not None)
    kinds = [counted(count[verb], noun) for verb, noun in _VERBS.items() if count[verb]]
    if others := sum(count.values()) - sum(count[verb] for verb in _VERBS):
        kinds.append(counted(others, "other group"))
    kinds += [f"{counted(group.costs.jobs, 'job')} without a group" for group in overview.groups if group.id is None]
    lines = [f"{', '.join(kinds)}."] if kinds else []
    if wasted := overview.wasted:
        share = wasted.billable_instance_seconds / (overview.total.billable_instance_seconds or math.inf)
        lines.append(
            f"{counted(wasted.jobs, 'job')} failed: {_cost_text(wasted, f' ({100 * share:.0f} %)')} were wasted."
        )
    if unbilled := overview.total.unbilled:
        lines.append(f"{counted(unbilled, 'job')} ended without a billing record.")
    if overview.warm_pool_instance_seconds:
        usd = f" and {money(overview.warm_pool_usd)} USD" if overview.warm_pool_usd else ""
        lines.append(
            f"Instances kept ready for the next job were billed a further "
            f"{figure(overview.warm_pool_instance_seconds)} instance seconds{usd}."
        )
    if overview.prices:
        unpriced = overview.total.unpriced
        excluded = f" They exclude {counted(unpriced, 'job')} without a price." if unpriced else ""
        lines.append(f"Dollars are based on these prices: {'; '.join(overview.prices)}.{excluded}")
    return lines


def _command(group: TrackedGroup) -> str:
    """Return the command that started the group, such as `compare demo`."""
    return f"{group.verb} {group.experiment}".strip() or NONE


def _arms(group: TrackedGroup, most: int = 6) -> str:
    """Return the labels of the group's arms, at most `most`, because a sweep may have hundreds."""
    shown = ", ".join(group.arms[:most])
    return f"{shown} and {len(group.arms) - most:,} more" if len(group.arms) > most else shown


def _details(group: TrackedGroup) -> str:
    """Return start, outcomes, cost and id of a group on one line."""
    costs = group.costs
    others = [f"{count:,} {outcome}" for outcome, count in costs.counts.items() if count and outcome != "finished"]
    outcomes = [counted(costs.jobs, "job"), *others]
    usd = f", {money(costs.usd)} USD" if costs.usd >= 0 else ""
    cost = f"{figure(costs.billable_instance_seconds)} s{usd}"
    return f"{group.started_at:%Y-%m-%d %H:%M}  {', '.join(outcomes)}  {cost}  {group.id or 'no group'}"


def _cost_text(costs: JobCosts, note: str) -> str:
    usd = f" and {money(costs.usd)} USD" if math.isfinite(costs.usd) else ""
    return f"{figure(costs.billable_instance_seconds)} billable instance seconds{note}{usd}"


def _group_table(overview: Overview, tracking_uri: str) -> Table:
    """Return the table of groups. The date links to the group's run, and the answer comes last."""

    def date(group: TrackedGroup) -> Cell:
        url = run_url(tracking_uri, group.experiment_id, group.run_id) if group.run_id else None
        return Cell(text=f"{group.started_at:%Y-%m-%d %H:%M}", url=url)

    columns = [
        Column[TrackedGroup]("date", date, unit="UTC"),
        Column[TrackedGroup](
            "command", lambda group: Cell(text=_command(group), detail=group.id or "no group"), kind="text"
        ),
        *_figures(overview, lambda group: group.costs),
        Column[TrackedGroup](
            "verdict", lambda group: Cell(text=group.headline or NO_REPORT, detail=_arms(group)), kind="text"
        ),
    ]
    return build_table("Groups", columns, overview.groups, style="settings trials groups")


def _cost_table(overview: Overview, name: str, costs: Sequence[JobCosts]) -> Table:
    """Return the table of outcomes and costs by `name`, which is also the first heading."""
    columns = [Column[JobCosts](name, lambda each: each.label), *_figures(overview, lambda each: each)]
    return build_table(f"Costs by {name}", columns, costs)


def _figures(overview: Overview, costs: Callable[[Key], JobCosts]) -> list[Column[Key]]:
    def of_outcome(outcome: str) -> Column[Key]:
        return Column(outcome, lambda each: costs(each).counts[outcome])

    usd = Column[Key]("cost", lambda each: costs(each).usd, unit="USD", text=money)
    return [
        Column("jobs", lambda each: costs(each).jobs),
        *map(of_outcome, OUTCOMES),
        Column("billed", lambda each: costs(each).billable_instance_seconds, unit="s"),
        *([usd] if math.isfinite(overview.total.usd) else []),
    ]
