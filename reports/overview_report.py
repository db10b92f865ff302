"""The overview of an MLflow experiment, read from the tracking server and brought into its forms."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass

from mlflow import MlflowClient

from reports.formats.html import overview_page
from reports.overview.overview import Overview, TrackedGroup, overview_of
from tracking.queries.job_tables import experiment_named, experiment_runs


@dataclass(frozen=True, kw_only=True)
class OverviewReport:
    """An overview in every form that it is kept in."""

    overview: Overview
    """What `terminal.print_overview` prints."""
    html: str
    """One page that needs nothing beside itself."""
    groups_csv: str
    """One line a group, the newest first; what is not known is empty."""


def render_overview(client: MlflowClient, *names: str, saw: Callable[[int], None] = lambda _: None) -> OverviewReport:
    """Return the overview of the first of these MLflow experiments that exists; `saw` hears how many runs were read.

    Raises `InputError` where none exists, and `TrackingError` when the server does not answer.
    """
    experiment = experiment_named(client, *names)
    id = str(experiment.experiment_id)
    overview = overview_of(experiment_runs(client, id, progress=saw), experiment.name, id)
    return OverviewReport(
        overview=overview, html=overview_page(overview, client.tracking_uri), groups_csv=groups_csv(overview)
    )


def groups_csv(overview: Overview) -> str:
    """Return one line a group."""
    out = io.StringIO()
    lines = [_line(group) for group in overview.groups]
    writer = csv.DictWriter(out, list(lines[0]) if lines else ["group"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return out.getvalue()


def _line(group: TrackedGroup) -> dict[str, object]:
    bill = group.bill
    counts = {name: getattr(bill, name) for name in ("jobs", "finished", "failed", "stopped", "running", "unbilled")}
    return {
        "group": group.id,
        "run_id": group.run_id,
        "started_at": group.started_at.isoformat(timespec="seconds"),
        "verb": group.verb,
        "experiment": group.experiment,
        "arms": "; ".join(group.arms),
        "headline": group.headline,
        **counts,
        "billable_instance_seconds": bill.billable_instance_seconds,
        "usd": bill.usd if bill.usd >= 0 else None,
    }
