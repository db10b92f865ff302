"""Cost of a job. Pure.

`billable_seconds` are the seconds of one instance, as SageMaker reports them. `billable_instance_seconds` are these
seconds times the number of instances, which is what AWS charges for. Only `instance_seconds` converts one to the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

InstanceSeconds = NewType("InstanceSeconds", float)
"""Seconds summed over all instances of a job."""


def instance_seconds(seconds: float, instances: int) -> InstanceSeconds:
    """Return the total seconds of a job whose instances each run for `seconds`."""
    return InstanceSeconds(seconds * instances)


def share_for_auto(trial_seconds: float, billed_seconds: float) -> float:
    """Return the share of a job's billed seconds in which it chose the values of `auto`; 0 if either is unknown."""
    return trial_seconds / billed_seconds if 0 < trial_seconds < billed_seconds else 0.0


@dataclass(frozen=True, kw_only=True)
class Price:
    """Price of one instance, with the source and the date of the figure."""

    usd_per_hour: float
    """US dollars per hour of one instance."""
    source: str
    """`AWS price list`, or the name of the user's price file."""
    date: str
    """ISO date on which the price was published or read."""

    def usd(self, billable: InstanceSeconds) -> float:
        """Return the cost of `billable` instance seconds, in US dollars."""
        return billable * self.usd_per_hour / 3600
