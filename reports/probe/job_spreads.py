"""Spread between a user's own tracked jobs, for each machine. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, TypeAlias

import pandas as pd

from judging.next_job import JobSpread, job_spread
from reports.comparison.arms import Job, job_of
from reports.comparison.selected_jobs import setting_of

Machine: TypeAlias = tuple[str | None, str | None, str | None]
"""Model, instance type and device. Jobs that agree in them are similar."""


def machine_of(job: Job) -> Machine:
    """Return the model of a job and the machine on which it ran."""
    return job.text.get("hp_model"), job.text.get("instance_type"), job.text.get("device")


def job_spreads(table: pd.DataFrame) -> dict[Machine, JobSpread]:
    """Return the spread between the repeats in a table from `similar_jobs.similar_jobs`.

    Repeats are jobs that differ in their seed alone, even of different groups. Probes, calibrations and jobs that end
    at a target do not count: their amount of work is not fixed.
    """
    costs: dict[Machine, dict[Any, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in table.to_dict("records"):
        job = job_of(row)
        if job.succeeded and job.number("cost_billable_seconds") > 0 and not _is_open_ended(job):
            costs[machine_of(job)][_setting(row, job)].append(job.number("cost_billable_seconds"))
    return {machine: job_spread(settings.values()) for machine, settings in costs.items()}


def _is_open_ended(job: Job) -> bool:
    is_sweep_part = job.text.get("role") in ("calibration", "trial")
    reaches_target = (job.text.get("hp_target_stop") or "").lower() == "true"
    return is_sweep_part or reaches_target or bool(job.text.get("hp_probe_precision"))


def _setting(row: Mapping[Any, Any], job: Job) -> frozenset[tuple[str, str]]:
    """Return everything in which repeats agree."""
    return frozenset({**setting_of(row), "cache": job.cache_state, "samples": f"{job.number('samples'):g}"}.items())
