"""Inputs of spot estimates, from jobs on the tracking server. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import pandas as pd

from reports.comparison.arms import Job, finite_or_zero, job_of
from reports.model.wording import counted
from reports.spot.estimate import SpotEstimate, Terms, Times, spot_estimate
from training.contract.price import Price

RATE, DISCOUNT = "interruptions_per_hour", "spot_discount_percent"
"""Columns of the tags with which a job records its experiment's terms."""
SAVED_PERCENT = "cost_spot_savings_percent"


@dataclass(frozen=True)
class Discount:
    """Discount of earlier spot jobs."""

    percent: float
    jobs: int

    @property
    def source(self) -> str:
        """The origin of the discount, for people."""
        return f"the median of {counted(self.jobs, 'earlier spot job')}"


def discounts_of(jobs: Sequence[Job]) -> dict[str, Discount]:
    """Return the median discount of the spot jobs of each instance type."""
    saved: dict[str, list[float]] = {}
    for job in jobs:
        if math.isfinite(percent := job.number(SAVED_PERCENT)):
            saved.setdefault(job.text.get("instance_type") or "", []).append(percent)
    return {instance_type: Discount(median(values), len(values)) for instance_type, values in saved.items()}


def discounts_in(table: pd.DataFrame) -> dict[str, Discount]:
    """Return the discounts of the jobs in a table from `job_tables`."""
    return discounts_of([job_of(row) for row in table.to_dict("records")])


def startup_seconds(job: Job) -> float | None:
    """Return the seconds from the start of the download to the first fast step; None if they are not recorded."""
    load = job.number("time_load_seconds")
    if not math.isfinite(load):
        return None
    return load + finite_or_zero(job.number("time_download_seconds")) + finite_or_zero(job.setup_beyond_steady_seconds)


def checkpoint_seconds(job: Job) -> float | None:
    """Return the mean seconds of the job's checkpoints; None if it wrote none."""
    seconds = job.number("time_seconds_per_checkpoint")
    return seconds if math.isfinite(seconds) else None


def running_seconds(job: Job, column: str) -> float:
    """Return billable seconds without the spot discount that SageMaker includes in them: the running time."""
    return job.number(column) / (1 - finite_or_zero(job.number(SAVED_PERCENT)) / 100)


def estimate_of_probe(probe: Job, discounts: Mapping[str, Discount]) -> SpotEstimate | None:
    """Return the estimate for the training that a probe projects; None for jobs of this machine, and if it is unknown.

    The discount of the experiment counts before that of earlier jobs of the instance type.
    """
    rate, startup = _number(probe, RATE), startup_seconds(probe)
    total, steps = running_seconds(probe, "projected_billable_seconds"), probe.number("projected_steps")
    if rate is None or startup is None or not (total > 0 and steps > 0):
        return None
    times = Times(
        total_seconds=total,
        startup_seconds=startup,
        checkpoint_seconds=checkpoint_seconds(probe),
        checkpoints=int(finite_or_zero(probe.number("projected_checkpoints"))),
        steps=int(steps),
    )
    instances = probe.number("projected_billable_instance_seconds") / probe.number("projected_billable_seconds")
    own, usd = _number(probe, DISCOUNT), _number(probe, "price_usd_per_hour")
    earlier = discounts.get(probe.text.get("instance_type") or "")
    price = Price(usd_per_hour=usd, source="", date="") if usd is not None else None
    return spot_estimate(times, terms_of(rate, max(1, round(finite_or_zero(instances))), own, earlier, price))


def terms_of(
    interruptions_per_hour: float, instances: int, own: float | None, earlier: Discount | None, price: Price | None
) -> Terms:
    """Return the terms with the discount of the experiment, or else with that of earlier jobs."""
    percent, source = own, "machine.spot_discount_percent"
    if own is None and earlier is not None:
        percent, source = earlier.percent, earlier.source
    return Terms(
        interruptions_per_hour=interruptions_per_hour,
        instances=instances,
        discount_percent=percent,
        discount_source=source if percent is not None else "",
        price=price,
    )


def _number(job: Job, column: str) -> float | None:
    """Return a number that a run stores as a tag, or None."""
    text, value = job.text.get(column), job.number(column)
    if math.isfinite(value):
        return value
    try:
        return float(text) if text else None
    except ValueError:
        return None
