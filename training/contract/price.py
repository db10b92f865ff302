"""Cost of a job. Pure.

`billable_seconds` are the seconds of one instance, as SageMaker reports them. `billable_instance_seconds` are these
seconds times the number of instances, which is what AWS charges for. Only `instance_seconds` converts one to the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from typing import NewType, TypedDict

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


class InstanceGroup(TypedDict):
    InstanceGroupName: str
    InstanceType: str
    InstanceCount: int


class Resources(TypedDict, total=False):
    InstanceType: str
    InstanceCount: int
    InstanceGroups: list[InstanceGroup]
    SelectedInstanceType: str
    SelectedInstanceCount: int
    TrainingPlanArn: str


def instances_of(resources: Resources) -> dict[str, int]:
    """Return the number of a job's instances by type: the selected type, if it allows several, or all instance groups.

    The type is `unknown` if the job has none.
    """
    if not (groups := resources.get("InstanceGroups")):
        kind = resources.get("SelectedInstanceType") or resources.get("InstanceType") or "unknown"
        return {kind: int(resources.get("SelectedInstanceCount", resources.get("InstanceCount", 1)))}
    counts: dict[str, int] = {}
    for group in groups:
        counts[group["InstanceType"]] = counts.get(group["InstanceType"], 0) + group["InstanceCount"]
    return counts


def mean_price(resources: Resources, price: Callable[[str], Price | None]) -> Price | None:
    """Return the mean price of a job's instances, or None if one is unknown.

    A training plan is a prepaid reservation: its jobs cost nothing more. `price` returns the price of a type.
    """
    if resources.get("TrainingPlanArn"):
        return Price(usd_per_hour=0.0, source="training plan", date=date.today().isoformat())
    prices = [(price(each), count) for each, count in instances_of(resources).items()]
    known = [(each, count) for each, count in prices if each]
    if len(known) < len(prices):
        return None
    usd = sum(each.usd_per_hour * count for each, count in known) / sum(count for _, count in known)
    return replace(known[0][0], usd_per_hour=usd)
