"""The overview of a whole MLflow experiment: the answer of every group and the cost of all jobs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, TypeAlias

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
    Table,
    Text,
    build_table,
    measured_section,
)
from tracking.queries.job_tables import tags_of
from tracking.queries.metric_histories import number

STATUSES = {"FINISHED": "finished", "FAILED": "failed", "KILLED": "stopped"}
"""Outcomes by MLflow status; a job with any other status is still running."""
RUNNING = "running"
OUTCOMES = (*STATUSES.values(), RUNNING)
NO_REPORT = "no report yet"
MAX_GROUPS = 20
"""Number of groups listed in the terminal; the page lists all groups."""
_COUNTED = Definition(
    "Jobs",
    f"All whose runs are not deleted, by the month in which the run started (UTC). “{NO_REPORT}”: make one with "
    "“trainfare report --group ID”.",
)
_VERBS = {"compare": "comparison", "probe": "probe", "sweep": "sweep", "train": "training"}
_COSTS = ("billable_instance_seconds", "usd", "warm_pool_instance_seconds", "warm_pool_usd")
_COLUMNS = ["group", "arm", "status", "started_at", "month", "price", *_COSTS]
Costs: TypeAlias = Mapping[str, Any]
"""Costs of some jobs: a `label`, the numbers of `jobs`, of jobs with each of `OUTCOMES`, of `unbilled` and `unpriced`
jobs, and the sums of `_COSTS`. Dollars are NaN if no job has a price."""


@dataclass(frozen=True, kw_only=True)
class Overview:
    name: str
    experiment_id: str
    groups: tuple[Costs, ...]
    """Newest first, also with `group`, `run_id`, `started_at` (UTC), `verb`, `experiment`, `arms` and `headline`. The
    group is None for jobs without one, the run for a deleted one, and the headline without a report."""
    total: Costs
    months: tuple[Costs, ...]
    """Newest first, with labels such as 2026-11."""
    wasted: Costs
    """Costs of failed jobs, without jobs that a person or a sweep stopped."""
    prices: tuple[str, ...]
    """Source and date of every price that the dollars are based on."""


def overview_of(runs: Iterable[Run], name: str, experiment_id: str) -> Overview:
    """Return the overview of an experiment's runs, oldest first. Those that are neither jobs nor groups are ignored."""
    rows: list[dict[str, object]] = []
    parents: dict[str | None, list[Run]] = {}
    for run in runs:
        kind, group = run.data.tags.get("platform.kind"), run.data.tags.get("platform.group")
        if kind == "job":
            rows.append(_row(run))
        elif kind == "group" and group:
            parents.setdefault(group, []).append(run)
    jobs = pd.DataFrame(rows, columns=_COLUMNS)
    members: dict[str | None, pd.DataFrame] = dict.fromkeys(parents, jobs[:0])
    members |= {id if isinstance(id, str) else None: own for id, own in jobs.groupby("group", sort=False, dropna=False)}
    groups = [_group(group, parents.get(group, []), own) for group, own in members.items()]
    by_month = {str(month): own for month, own in jobs.groupby("month")}
    return Overview(
        name=name,
        experiment_id=experiment_id,
        groups=tuple(sorted(groups, key=lambda group: group["started_at"], reverse=True)),
        total=_costs_of("all", jobs),
        months=tuple(_costs_of(month, by_month[month]) for month in sorted(by_month, reverse=True)),
        wasted=_costs_of("failed", jobs[jobs["status"] == "failed"]),
        prices=tuple(sorted(jobs["price"].dropna().unique())),
    )


def _group(id: str | None, parents: Sequence[Run], jobs: pd.DataFrame) -> Costs:
    # If a launcher died and a second one resumed its group, the second launcher's run is the parent.
    current = [run for run in parents if run.data.tags.get("platform.group_state") != "continued"]
    parent = (current or parents)[-1] if parents else None
    tags = parent.data.tags if parent else {}
    return {
        "group": id,
        "run_id": parent.info.run_id if parent else None,
        "started_at": min([*map(_started_at, parents), *jobs["started_at"]]),
        "verb": tags.get("platform.verb", ""),
        "experiment": tags.get("platform.experiment", ""),
        "arms": tuple(jobs["arm"].unique()),
        "headline": tags.get("platform.headline"),
        **_costs_of(id or "", jobs),
    }


def _row(run: Run) -> dict[str, object]:
    """Return what an overview needs of a job. A cost that is missing or cannot be true is NaN."""
    tags, started_at = tags_of(run), _started_at(run)
    costs = {name: number(run.data.metrics.get(f"cost/{name}", math.nan)) for name in _COSTS}
    return {
        "group": tags.get("platform.group"),
        "arm": tags.get("arm") or "unnamed",
        "status": STATUSES.get(run.info.status, RUNNING),
        "started_at": started_at,
        "month": f"{started_at:%Y-%m}",
        "price": ", ".join(filter(None, map(tags.get, ("platform.price_source", "platform.price_date")))) or None,
        **{name: cost if 0 <= cost < math.inf else math.nan for name, cost in costs.items()},
    }


def _costs_of(label: str, jobs: pd.DataFrame) -> Costs:
    has_ended, is_billed, has_price = jobs["status"] != RUNNING, jobs[_COSTS[0]].notna(), jobs["usd"].notna()
    return {
        "label": label,
        "jobs": len(jobs),
        **{outcome: int((jobs["status"] == outcome).sum()) for outcome in OUTCOMES},
        "unbilled": int((has_ended & ~is_billed).sum()),
        "unpriced": int((is_billed & ~has_price).sum()),
        **{name: math.fsum(jobs[name].dropna()) for name in _COSTS},
        **({} if has_price.any() else {"usd": math.nan}),
    }


def _started_at(run: Run) -> datetime:
    return datetime.fromtimestamp((run.info.start_time or 0) / 1000, UTC)


def overview_report(overview: Overview, tracking_uri: str) -> Report:
    """Return the report; its `rows_csv` has one line per group."""
    headline, remarks = _headline(overview), tuple(map(Text, _sentences(overview)))
    columns = [Column[Costs]("month", lambda each: each["label"]), *_figures(overview)]
    months = build_table("Costs by month", columns, overview.months)
    sections = (
        Section("All comparisons, probes and sweeps, newest first", (_group_table(overview, tracking_uri),)),
        Section("Costs by month", (months,)),
        measured_section(_COUNTED),
    )
    texts = [
        {**each, "arms": "; ".join(each["arms"]), "started_at": each["started_at"].isoformat()}
        for each in overview.groups
    ]
    return Report(
        group="",
        title=f"Overview of {overview.name}",
        headline=headline,
        answer=remarks,
        sections=sections if overview.groups else (),
        brief=(*((*_listed(overview), months) if overview.groups else ()), *remarks),
        summary={},
        rows_csv=pd.DataFrame(texts).to_csv(index=False),
    )


def _listed(overview: Overview) -> tuple[Block, ...]:
    """Return the newest groups as a list, which fits a terminal better than a table."""
    items = Items(
        tuple(
            Item(
                label=f"{_command(group)}  {_details(group)}",
                texts=(Text(group["headline"] or NO_REPORT), Text(_arms(group))),
            )
            for group in overview.groups[:MAX_GROUPS]
        )
    )
    left_out = len(overview.groups) - MAX_GROUPS
    more = Text(f"... and {left_out:,} older groups; the page lists them all.")
    return (items, more) if left_out > 0 else (items,)


def _headline(overview: Overview) -> str:
    """Return the number of jobs and their cost in one sentence."""
    if not overview.groups:
        return f"“{overview.name}” has no jobs."
    seconds = overview.total["billable_instance_seconds"]
    in_hours = f" ({durations(seconds)[0]})" if seconds >= 600 else ""
    return f"{counted(overview.total['jobs'], 'job')} took {_cost_text(overview.total, in_hours)} in all."


def _sentences(overview: Overview) -> list[str]:
    total, prices = overview.total, "; ".join(overview.prices)
    count = Counter(group["verb"] for group in overview.groups if group["group"] is not None)
    kinds = [counted(count[verb], noun) for verb, noun in _VERBS.items() if count[verb]]
    if others := sum(count.values()) - sum(count[verb] for verb in _VERBS):
        kinds.append(counted(others, "other group"))
    kinds += [f"{counted(each['jobs'], 'job')} without a group" for each in overview.groups if each["group"] is None]
    lines = [f"{', '.join(kinds)}."] if kinds else []
    if (wasted := overview.wasted)["jobs"]:
        share = wasted["billable_instance_seconds"] / (total["billable_instance_seconds"] or math.inf)
        cost = _cost_text(wasted, f" ({100 * share:.0f} %)")
        lines.append(f"{counted(wasted['jobs'], 'job')} failed: {cost} were wasted.")
    if total["unbilled"]:
        lines.append(f"{counted(total['unbilled'], 'job')} ended without a billing record.")
    if seconds := total["warm_pool_instance_seconds"]:
        usd = f" and {money(total['warm_pool_usd'])} USD" if total["warm_pool_usd"] else ""
        kept = "Instances kept ready for the next job were billed a further"
        lines.append(f"{kept} {figure(seconds)} instance seconds{usd}.")
    if prices:
        excluded = f" They exclude {counted(total['unpriced'], 'job')} without a price." if total["unpriced"] else ""
        lines.append(f"Dollars are based on these prices: {prices}.{excluded}")
    return lines


def _command(group: Costs) -> str:
    """Return the command that started the group, such as `compare demo`."""
    return f"{group['verb']} {group['experiment']}".strip() or NONE


def _arms(group: Costs, most: int = 6) -> str:
    """Return the labels of the group's arms, at most `most`, because a sweep may have hundreds."""
    shown, more = ", ".join(group["arms"][:most]), len(group["arms"]) - most
    return f"{shown} and {more:,} more" if more > 0 else shown


def _details(group: Costs) -> str:
    """Return start, outcomes, cost and id of a group on one line."""
    others = [f"{group[outcome]:,} {outcome}" for outcome in OUTCOMES if group[outcome] and outcome != "finished"]
    usd = f", {money(group['usd'])} USD" if group["usd"] >= 0 else ""
    cost = f"{figure(group['billable_instance_seconds'])} s{usd}"
    outcomes = ", ".join([counted(group["jobs"], "job"), *others])
    return f"{group['started_at']:%Y-%m-%d %H:%M}  {outcomes}  {cost}  {group['group'] or 'no group'}"


def _cost_text(costs: Costs, note: str) -> str:
    usd = f" and {money(costs['usd'])} USD" if math.isfinite(costs["usd"]) else ""
    return f"{figure(costs['billable_instance_seconds'])} billable instance seconds{note}{usd}"


def _group_table(overview: Overview, tracking_uri: str) -> Table:
    """Return the table of groups. The date links to the group's run, and the answer comes last."""

    def date(group: Costs) -> Cell:
        url = run_url(tracking_uri, overview.experiment_id, group["run_id"]) if group["run_id"] else None
        return Cell(text=f"{group['started_at']:%Y-%m-%d %H:%M}", url=url)

    columns = [
        Column[Costs]("date", date, unit="UTC"),
        Column[Costs]("command", lambda g: Cell(text=_command(g), detail=g["group"] or "no group"), kind="text"),
        *_figures(overview),
        Column[Costs]("verdict", lambda g: Cell(text=g["headline"] or NO_REPORT, detail=_arms(g)), kind="text"),
    ]
    return build_table("Groups", columns, overview.groups, style="settings trials groups")


def _figures(overview: Overview) -> list[Column[Costs]]:
    return [
        *(Column[Costs](name, itemgetter(name)) for name in ("jobs", *OUTCOMES)),
        Column[Costs]("billed", itemgetter("billable_instance_seconds"), unit="s"),
        *(
            [Column[Costs]("cost", itemgetter("usd"), unit="USD", text=money)]
            if math.isfinite(overview.total["usd"])
            else []
        ),
    ]
