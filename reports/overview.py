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


@dataclass(frozen=True, kw_only=True, slots=True)
class TrackedJob:
    """One job with only the fields that an overview needs: an experiment may contain tens of thousands of jobs."""

    group: str | None
    """Id of its group, or None."""
    arm: str
    status: str
    """finished, failed, stopped or running."""
    started_at: datetime
    """Start of its run, UTC."""
    billable_instance_seconds: float
    """NaN without a billing record."""
    usd: float
    """NaN without a price."""
    price: str | None
    """Source and date of the price."""
    warm_pool_instance_seconds: float
    """Billed in addition to the job for instances kept ready for the next job; 0 without such instances."""
    warm_pool_usd: float
    """Cost of those instances; 0 if unknown."""


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
    jobs: list[TrackedJob] = []
    seen: set[tuple[str, str] | None] = set()
    parents: dict[str | None, list[Run]] = {}
    for run in runs:
        kind, group = run.data.tags.get("platform.kind"), run.data.tags.get("platform.group")
        if kind == "job" and ((key := job_key(run)) is None or key not in seen):
            jobs.append(_job_of(run))
            seen.add(key)
        elif kind == "group" and group:
            parents.setdefault(group, []).append(run)
    members = {**{group: list[TrackedJob]() for group in parents}, **_group_by(jobs, lambda job: job.group)}
    groups = [_group(group, experiment_id, parents.get(group, []), own) for group, own in members.items()]
    months, statuses = _group_by(jobs, lambda job: f"{job.started_at:%Y-%m}"), _group_by(jobs, lambda job: job.status)
    return Overview(
        name=name,
        experiment_id=experiment_id,
        groups=tuple(sorted(groups, key=lambda group: group.started_at, reverse=True)),
        total=_costs_of("all", jobs),
        months=tuple(_costs_of(month, months[month]) for month in sorted(months, reverse=True)),
        statuses=tuple(_costs_of(each, statuses[each]) for each in OUTCOMES if each in statuses),
        prices=tuple(sorted({job.price for job in jobs if job.price})),
        warm_pool_instance_seconds=math.fsum(job.warm_pool_instance_seconds for job in jobs),
        warm_pool_usd=math.fsum(job.warm_pool_usd for job in jobs),
    )


def _group(id: str | None, experiment_id: str, parents: Sequence[Run], jobs: Sequence[TrackedJob]) -> TrackedGroup:
    # If a launcher died and a second one resumed its group, the second launcher's run is the parent.
    current = [run for run in parents if run.data.tags.get("platform.group_state") != "continued"]
    parent = (current or parents)[-1] if parents else None
    tags = parent.data.tags if parent else {}
    return TrackedGroup(
        id=id,
        run_id=parent.info.run_id if parent else None,
        experiment_id=experiment_id,
        started_at=min([*map(_started_at, parents), *(job.started_at for job in jobs)]),
        verb=tags.get("platform.verb", ""),
        experiment=tags.get("platform.experiment", ""),
        headline=tags.get("platform.headline"),
        arms=tuple(dict.fromkeys(job.arm for job in jobs)),
        costs=_costs_of(id or "", jobs),
    )


def _group_by(jobs: Iterable[TrackedJob], key: Callable[[TrackedJob], Key]) -> dict[Key, list[TrackedJob]]:
    groups: dict[Key, list[TrackedJob]] = {}
    for job in jobs:
        groups.setdefault(key(job), []).append(job)
    return groups


def _job_of(run: Run) -> TrackedJob:
    tags = run.data.tags
    source, date = (tags.get(f"platform.price_{name}") for name in ("source", "date"))
    return TrackedJob(
        group=tags.get("platform.group"),
        arm=tags.get("platform.arm") or "unnamed",
        status=STATUSES.get(run.info.status, RUNNING),
        started_at=_started_at(run),
        billable_instance_seconds=_metric(run, "cost/billable_instance_seconds"),
        usd=_metric(run, "cost/usd"),
        price=f"{source}, {date}" if source and date else source,
        warm_pool_instance_seconds=_metric(run, "cost/warm_pool_instance_seconds", default=0.0),
        warm_pool_usd=_metric(run, "cost/warm_pool_usd", default=0.0),
    )


def _costs_of(label: str, jobs: Sequence[TrackedJob]) -> JobCosts:
    count = Counter(job.status for job in jobs)
    billed = [job for job in jobs if math.isfinite(job.billable_instance_seconds)]
    priced = [job.usd for job in jobs if math.isfinite(job.usd)]
    return JobCosts(
        label=label,
        counts={status: count[status] for status in OUTCOMES},
        billable_instance_seconds=math.fsum(job.billable_instance_seconds for job in billed),
        usd=math.fsum(priced) if priced else math.nan,
        unbilled=sum(job.status != RUNNING and math.isnan(job.billable_instance_seconds) for job in jobs),
        unpriced=sum(math.isnan(job.usd) for job in billed),
    )


def _started_at(run: Run) -> datetime:
    return datetime.fromtimestamp((run.info.start_time or 0) / 1000, UTC)


def _metric(run: Run, name: str, default: float = math.nan) -> float:
    value = number(run.data.metrics.get(name, math.nan))
    return value if math.isfinite(value) and value >= 0 else default


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
