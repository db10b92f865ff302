"""The table of jobs, with their outcomes and links to their runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from reports.comparison.arms import Job
from reports.comparison.equal_work import BILLABLE
from reports.model.links import run_url
from reports.model.numbers import figure
from reports.model.report import Section
from reports.model.table import Cell, Heading, Row, Table
from reports.model.wording import short

_MAX_CHARACTERS = 300
"""Length at which a failure message is cut."""
_HEADINGS = (
    Heading(label="job", head="job", kind="text"),
    Heading(label="status", head="status", kind="text"),
    Heading(label="cache", head="cache", kind="text"),
    Heading(label="billable", head="billable", unit="s"),
    Heading(label="run", head="run", kind="text"),
)


def job_sections(jobs: Sequence[Job], tracking_uri: str, title: str = "Every job") -> tuple[Section, ...]:
    """Return the section with the table of these jobs; empty without jobs."""
    rows = tuple(_row(job, job_url(tracking_uri, job)) for job in jobs)
    return (Section(title, (Table(name=title, headings=_HEADINGS, rows=rows, style="jobs"),)),) if rows else ()


def job_url(tracking_uri: str, job: Job) -> str | None:
    """Return the address of a job's run; None for a store that has no web address."""
    return run_url(tracking_uri, job.experiment_id, job.run_id)


def _row(job: Job, url: str | None) -> Row:
    seconds, status = job.number(BILLABLE), "stopped" if job.stopped else job.status.lower()
    return Row(
        (
            Cell(text=job.title),
            Cell(text=status, badge=job.status, error=_failure(job), detail=_mark(job)),
            Cell(text=job.cache_state),
            Cell(text=figure(seconds), sort=seconds if 0 < seconds < math.inf else None),
            Cell(text=job.name, url=url, code="" if url else job.run_id),
        )
    )


def _mark(job: Job) -> str:
    return f"disturbed: {', '.join(job.disturbances)}" if job.disturbances else ""


def _failure(job: Job) -> str:
    if not job.failed:
        return ""
    message = short(job.text.get("failure_message") or "no message", _MAX_CHARACTERS)
    return f"{job.text.get('failure_class') or 'unclassified'}: {message}"
