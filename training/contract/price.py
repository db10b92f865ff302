"""What a machine costs, and what a job cost by it. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Price:
    """What one machine costs; never without where the figure comes from, and of when it is."""

    usd_per_hour: float
    source: str
    """`AWS price list`, or the file that says so."""
    date: str
    """ISO date on which the figure was published, or read."""

    def usd(self, billable_seconds: float, instances: int) -> float:
        """Return dollars: seconds of one machine, times the machines, at the price."""
        return billable_seconds * instances * self.usd_per_hour / 3600
