"""The report of a sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import pandas as pd

from reports.charts.sweep_charts import plots_of_sweep
from reports.comparison.columns import Column
from reports.comparison.comparison import compare
from reports.comparison_report import contrast_json
from reports.formats.html import sweep_page
from reports.formats.report import Report, json_value, plain, table_row
from reports.sweep import messages
from reports.sweep.columns import best_columns, spent_columns, trial_columns
from reports.sweep.factorial import square
from reports.sweep.grid_cost import grid_of
from reports.sweep.sweep import Sweep, sweep_of
from reports.sweep.trials import Trial

Row = TypeVar("Row")

MOST_DESCRIBED = 10
"""Trials in the parent run's description."""


@dataclass(frozen=True, kw_only=True)
class SweepRead:
    """What the tracking server told of a sweep."""

    table: pd.DataFrame
    """Its jobs, see `query.jobs`."""
    told: Mapping[str, Any]
    """Its `sweep.json`."""
    calibrations: Mapping[str, pd.DataFrame]
    """`histories` tables of calibrations by run id."""
    curves: Mapping[str, pd.DataFrame]
    """`histories` tables of the trials' quality by run id."""
    environment: Mapping[str, Any]
    """Versions and hardware of the first job that succeeded."""
    tracking_uri: str
    """Where all this was read."""
    missing: tuple[str, ...] = ()
    """A sentence for everything that is not there, or could not be read."""


def sweep_report(read: SweepRead, group: str, title: str) -> Report:
    """Return the report of a sweep."""
    sweep = sweep_of(read.table, group, read.told, read.calibrations, read.curves)
    plots = plots_of_sweep(sweep)
    return Report(
        comparison=sweep.confirmation or compare(read.table[:0], group),
        probes=None,
        sweep=sweep,
        html=sweep_page(sweep, title, plots, read.tracking_uri, read.environment, read.missing),
        pngs={f"{plot.name}.png": plot.png for plot in plots},
        jobs_csv=read.table.to_csv(index=False),
        summary_json=summary_of(sweep),
        markdown=markdown_of(sweep),
    )


def summary_of(sweep: Sweep) -> dict[str, Any]:
    """Return the sweep as strict JSON values."""
    grid, best = grid_of(sweep), {name: sweep.best_of(name) for name in sweep.compilers}
    told: dict[str, Any] = json_value(
        {
            "group": sweep.group,
            "headline": messages.headline(sweep),
            "best": _trial(sweep.best) if sweep.best else None,
            "best_by_compiler": {name: _trial(trial) if trial else None for name, trial in best.items()},
            "front": [_trial(trial) for trial in sweep.front] if sweep.asked.is_front else None,
            "base": {**asdict(sweep.base), "cost": sweep.base_cost},
            "train_command": sweep.train_command,
            "trials": [_trial(trial) for trial in sweep.trials],
            "confirmation": [contrast_json(each) for each in sweep.confirmation.contrasts]
            if sweep.confirmation
            else None,
            "two_by_two": [
                {**asdict(cell.setting), "ratio": asdict(cell.ratio) if cell.ratio else None} for cell in square(sweep)
            ],
            "spent": [asdict(each) for each in sweep.spent()],
            "spent_on_trials": [asdict(each) for each in sweep.spent_on_trials()],
            "grid": asdict(grid) if grid else None,
            "stopped_because": dict(sweep.asked.stopped_because),
        }
    )
    return told


def markdown_of(sweep: Sweep) -> str:
    """Return headline, command, the best settings and the best trials as Markdown."""
    lines = [f"**{plain(messages.headline(sweep))}**", ""]
    if sweep.train_command:
        lines += ["```", sweep.train_command.replace("```", "'''"), "```", ""]
    lines += _table(best_columns(sweep), sweep.best_trials)
    lines += [f"- {plain(sentence)}" for sentence in messages.sentences(sweep)]
    lines += ["", *_table(trial_columns(sweep), sweep.trials[:MOST_DESCRIBED])]
    lines += _table(spent_columns(sweep), sweep.bills())
    return "\n".join([*lines, "The full report is among the artifacts: `report/report.html`.", ""])


def _table(columns: Sequence[Column[Row]], rows: Sequence[Row]) -> list[str]:
    if not rows:
        return []
    heads = [column.title for column in columns]
    rule = table_row(["---"] + ["---:"] * (len(heads) - 1))
    return [table_row(heads), rule, *(table_row([column.value(row) for column in columns]) for row in rows), ""]


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        **asdict(trial.setting),
        "trial": trial.number,
        "run_id": trial.job.run_id,
        "end": trial.end,
        "cost": trial.cost,
        "quality": trial.quality,
        "samples": trial.job.number("samples"),
    }
