"""Cost of listed jobs: their billed seconds times a price. Each price has a source and a date."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from training.contract.price import Price, instance_seconds
from training.contract.service import TERMINAL_STATUSES, Description, instance_count
from training.state.home import home

if TYPE_CHECKING:
    from training.services.sagemaker.clients import Clients

PriceOf = Callable[[str], Price | None]
"""Function from instance type to price; None if the price is unknown."""


def price_of(service: str, table: str | None, echo: Callable[[str], None]) -> PriceOf:
    """Return the price function of a service. Local jobs have no price."""
    if service == "local":
        return lambda _: None
    from training.services.sagemaker.clients import Clients

    return sagemaker_price(Clients(), table, echo)


def sagemaker_price(
    clients: Clients, table: str | None, echo: Callable[[str], None], *, is_read_only: bool = False
) -> PriceOf:
    """Return the price function of SageMaker: from a user's table, or AWS's price list."""
    from training.services.sagemaker.prices import listed_price, table_price

    if table:
        return lambda instance_type: table_price(table, instance_type)
    file = home() / "prices.json"
    return lambda instance_type: listed_price(clients, instance_type, file, echo, is_read_only=is_read_only)


def prices(descriptions: Iterable[Description], price_of: PriceOf) -> dict[str, Price]:
    """Return the price of each instance type of a billed job; each is looked up once."""
    types = {_instance_type(each) for each in descriptions if billed_seconds(each)}
    return {each: price for each in sorted(types) if each and (price := price_of(each))}


def is_running(description: Description) -> bool:
    """Return whether a job has not ended."""
    return description["TrainingJobStatus"] not in TERMINAL_STATUSES


def billed_seconds(description: Description) -> float | None:
    """Return the billed seconds of each instance of a job, so far if it runs; None if they are not known."""
    if (billed := description.get("BillableTimeInSeconds")) is not None:
        return float(billed)
    started = description.get("TrainingStartTime")
    if started is None or not is_running(description):
        return None
    return float((datetime.now(UTC) - started).total_seconds())


def usd(description: Description, known: dict[str, Price]) -> float | None:
    """Return the cost of a job in USD, so far if it runs; None if unknown.

    For a running job on spot capacity it is an upper bound: the discount is known at its end.
    """
    seconds, price = billed_seconds(description), known.get(_instance_type(description))
    if seconds is None or price is None:
        return None
    return price.usd(instance_seconds(seconds, instance_count(description)))


def total(descriptions: Iterable[Description], known: dict[str, Price]) -> str:
    """Return a line with the total cost of running and ended jobs, or an empty text if no price is known."""
    costs = {True: list[float](), False: list[float]()}
    for each in descriptions:
        if (cost := usd(each, known)) is not None:
            costs[is_running(each)].append(cost)
    words = ((costs[True], "running", " so far"), (costs[False], "ended", ""))
    parts = [f"{len(each)} {word}, {sum(each):.2f} USD{end}" for each, word, end in words if each]
    sources = sorted({f"{price.source}, {price.date}" for price in known.values()})
    return f"{'; '.join(parts)} ({'; '.join(sources)})" if parts else ""


def _instance_type(description: Description) -> str:
    resources = description.get("ResourceConfig", {})
    return str(resources.get("SelectedInstanceType") or resources.get("InstanceType", ""))
