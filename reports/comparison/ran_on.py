"""Machines, versions, data and prices of a group's jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reports.comparison.arms import Job
from reports.model.blocks import Definition, Definitions
from reports.model.report import Section

_COLUMNS = {"Device": "device", "Service": "service", "Instance type": "instance_type", "Data": "data_key"}


def ran_on_sections(jobs: Sequence[Job], environment: Mapping[str, Any], group: str) -> tuple[Section, ...]:
    """Return the section that says what the jobs ran on; none if nothing is known."""
    known = facts(jobs, environment)
    if not known:
        return ()
    definitions = [Definition(term, text) for term, text in known.items()]
    return (Section("What it ran on", (Definitions((*definitions, Definition("Group", group, is_code=True))),)),)


def facts(jobs: Sequence[Job], environment: Mapping[str, Any]) -> dict[str, str]:
    """Return devices, services, data and prices of the jobs, and the versions in `environment`."""
    texts = {name: _distinct(jobs, column) for name, column in _COLUMNS.items()}
    texts["Price"] = "; ".join(dict.fromkeys(price for job in jobs if (price := _price(job))))
    job = environment.get("job") or {}
    versions = job.get("versions") or environment.get("packages") or {}
    texts["Versions"] = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    git = environment.get("git") or {}
    changed = " with local changes" if git.get("dirty") else ""
    texts["Source"] = f"{git['commit'][:12]}{changed}" if git.get("commit") else ""
    return {name: text for name, text in texts.items() if text}


def _price(job: Job) -> str:
    """Return the price that a job's dollars are based on, with its source and date; empty if it has none."""
    usd, source, date = (job.text.get(f"price_{name}") for name in ("usd_per_hour", "source", "date"))
    origin = ", ".join(part for part in (source, date) if part)
    return f"{usd} USD per hour of {job.text.get('instance_type')}{f' ({origin})' if origin else ''}" if usd else ""


def _distinct(jobs: Sequence[Job], column: str) -> str:
    return ", ".join(dict.fromkeys(value for job in jobs if (value := job.text.get(column))))
