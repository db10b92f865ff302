"""The environment of a group's jobs: machines, versions, data and prices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reports.comparison.arms import Job
from reports.model.blocks import Definition, Definitions
from reports.model.report import Section

_COLUMNS = {"Device": "device", "Service": "service", "Instance type": "instance_type", "Data": "data_key"}


def ran_on_sections(jobs: Sequence[Job], environment: Mapping[str, Any], group: str) -> tuple[Section, ...]:
    """Return the section with the jobs' environment; empty if nothing is known about it."""
    known = environment_texts(jobs, environment)
    if not known:
        return ()
    definitions = [Definition(term, text) for term, text in known.items()]
    return (Section("Environment", (Definitions((*definitions, Definition("Group", group, is_code=True))),)),)


def environment_texts(jobs: Sequence[Job], environment: Mapping[str, Any]) -> dict[str, str]:
    """Return the jobs' devices, services, data and prices, and the versions in `environment`."""
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
    """Return the price behind a job's dollars, with its source and date; empty without a price."""
    usd, source, date = (job.text.get(f"price_{name}") for name in ("usd_per_hour", "source", "date"))
    origin = ", ".join(part for part in (source, date) if part)
    return f"{usd} USD per hour of {job.text.get('instance_type')}{f' ({origin})' if origin else ''}" if usd else ""


def _distinct(jobs: Sequence[Job], column: str) -> str:
    return ", ".join(dict.fromkeys(value for job in jobs if (value := job.text.get(column))))
