"""A report as one HTML page that needs nothing beside itself."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from reports.charts.canvas import Plot, theme_css
from reports.charts.sweep_importance import why_untold
from reports.comparison import messages as comparison_messages
from reports.comparison.arms import Job
from reports.comparison.columns import columns
from reports.comparison.comparison import Comparison
from reports.comparison.equal_work import PAID
from reports.comparison.factorial import square_of
from reports.comparison.published_figures import Published, beside
from reports.overview import messages as overview_messages
from reports.overview.overview import Overview, TrackedGroup
from reports.probe import messages as probe_messages
from reports.probe.projections import Probes
from reports.sweep import columns as sweep_columns
from reports.sweep import messages as sweep_messages
from reports.sweep.factorial import square
from reports.sweep.sweep import Sweep

MOST_TRIALS = 200
"""Trials on a page; the file of jobs holds all."""
_BREAKABLE = re.compile(
    r"<(style|script|svg|pre|code)\b.*?</\1>|<[^>]*>"  # found first, and kept
    r"|(?<=\d) (?=(?:%|s|min|h|GiB|USD|samples/s)(?![\w/]))|(?<=[×=]) (?=\d)| (?=× \d)|(?<=\bn) (?==)",
    re.DOTALL,
)


def page(
    comparison: Comparison,
    title: str,
    plots: Sequence[Plot],
    tracking_uri: str,
    environment: Mapping[str, Any],
    published: Published | None = None,
    missing: Sequence[str] = (),
) -> str:
    """Return the page; its text is escaped, its charts are inline SVG."""
    return _rendered(
        "page.html.j2",
        comparison=comparison,
        columns=columns(comparison),
        square=square_of(comparison),
        published=published,
        beside=beside(published, comparison) if published else (),
        words=comparison_messages,
        **_common(comparison.jobs, title, plots, tracking_uri, environment),
        missing=missing,
    )


def probes_page(
    probes: Probes,
    title: str,
    plots: Sequence[Plot],
    tracking_uri: str,
    environment: Mapping[str, Any],
    missing: Sequence[str] = (),
) -> str:
    """Return the page of a group of probes."""
    return _rendered(
        "probes.html.j2",
        probes=probes,
        columns=probe_messages.columns(probes),
        words=probe_messages,
        figures=comparison_messages,
        **_common(probes.jobs, title, plots, tracking_uri, environment),
        missing=missing,
    )


def sweep_page(
    sweep: Sweep,
    title: str,
    plots: Sequence[Plot],
    tracking_uri: str,
    environment: Mapping[str, Any],
    missing: Sequence[str] = (),
) -> str:
    """Return the page of a sweep."""
    return _rendered(
        "sweep.html.j2",
        sweep=sweep,
        cells=square(sweep),
        why_untold=why_untold,
        tables=sweep_columns,
        words=sweep_messages,
        figures=comparison_messages,
        columns=columns(sweep.confirmation) if sweep.confirmation else [],
        most=MOST_TRIALS,
        **_common(sweep.jobs, title, plots, tracking_uri, environment),
        missing=missing,
    )


def overview_page(overview: Overview, tracking_uri: str) -> str:
    """Return the page of an overview; each group's date leads to its run."""

    def date(group: TrackedGroup) -> str:
        url = place_of_run(tracking_uri, group.experiment_id, group.run_id) if group.run_id else None
        return Markup('<a href="{}">{}</a>').format(url, dates.value(group)) if url else dates.value(group)

    dates, *others = overview_messages.group_columns(overview)
    return _rendered(
        "overview.html.j2",
        overview=overview,
        title=f"Overview of {overview.name}",
        theme=Markup(theme_css()),
        columns=[replace(dates, value=date), *others],
        words=overview_messages,
    )


def _common(
    jobs: Sequence[Job], title: str, plots: Sequence[Plot], tracking_uri: str, environment: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "title": title,
        "plots": [(plot, Markup(plot.svg)) for plot in plots],
        "theme": Markup(theme_css()),
        "paid": PAID,
        "job_url": lambda job: run_url(tracking_uri, job),
        "facts": facts(jobs, environment),
    }


def run_url(tracking_uri: str, job: Job) -> str | None:
    """Return where the tracking server's UI shows a job's run; None for a store that has no address."""
    return place_of_run(tracking_uri, job.experiment_id, job.run_id)


def place_of_run(tracking_uri: str, experiment_id: str, run_id: str) -> str | None:
    """Return where the tracking server's UI shows a run, without credentials; None for a store that has no address."""
    parts = urlsplit(tracking_uri)
    if parts.scheme not in ("http", "https"):
        return None
    base = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))
    # Without the workflow type the page stands among those of traces, and leads back to them.
    return f"{base}/#/experiments/{experiment_id}/runs/{run_id}?workflowType=machine_learning"


def facts(jobs: Sequence[Job], environment: Mapping[str, Any]) -> dict[str, str]:
    """Return what the jobs ran on: devices, services and the versions that the environment tells."""
    columns = {"Device": "device", "Service": "service", "Machine type": "instance_type", "Data": "data_key"}
    told = {name: _distinct(jobs, column) for name, column in columns.items()}
    told["Price"] = "; ".join(dict.fromkeys(price for job in jobs if (price := _price(job))))
    job = environment.get("job") or {}
    versions = job.get("versions") or environment.get("packages") or {}
    told["Versions"] = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    git = environment.get("git") or {}
    told["Source"] = (
        f"{git['commit'][:12]}{' with local changes' if git.get('dirty') else ''}" if git.get("commit") else ""
    )
    return {name: value for name, value in told.items() if value}


def _price(job: Job) -> str:
    """Return the price that a job's dollars are counted with, its source and its date; empty where it has none."""
    usd, source, date = (job.text.get(f"price_{name}") for name in ("usd_per_hour", "source", "date"))
    told = ", ".join(part for part in (source, date) if part)
    return f"{usd} USD an hour of {job.text.get('instance_type')}{f' ({told})' if told else ''}" if usd else ""


def _distinct(jobs: Sequence[Job], column: str) -> str:
    return ", ".join(dict.fromkeys(value for job in jobs if (value := job.text.get(column))))


@cache
def _template(name: str) -> Template:
    loader = PackageLoader("reports", "formats")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["sort_value"] = sort_value
    return environment.get_template(name)


def _rendered(template: str, **told: Any) -> str:
    return unbroken(_template(template).render(**told))


def unbroken(html: str) -> str:
    """Return a page on which no line ends between a number and its unit: a no-break space stands there.

    Charts and what is to be copied are left as they are.
    """
    return _BREAKABLE.sub(lambda found: "\N{NO-BREAK SPACE}" if found[0] == " " else found[0], html)


def sort_value(text: str) -> float | None:
    """Return the number that a cell begins with, by which its column sorts: `12,300` -> 12300, `−4.2 %` -> -4.2."""
    found = re.match(r"[≥+]? ?([-−]?)(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?(?:e-?\d+)?)(?![\w.])", text)
    return float(found[1].replace("−", "-") + found[2].replace(",", "")) if found else None
