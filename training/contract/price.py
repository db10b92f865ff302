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
