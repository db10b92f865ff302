"""Cost so far of running jobs: billed seconds times a price. Each price has a source and a date."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

from training.contract.price import Price, instance_seconds
from training.contract.service import TERMINAL_STATUSES, Description, instance_count
from training.state.home import home

PriceOf = Callable[[str], Price | None]
"""Function from instance type to price; None if the price is unknown."""


def price_of(service: str, table: str | None, echo: Callable[[str], None]) -> PriceOf:
    """Return the price function of a service: from a user's table, or AWS's price list. Local jobs have no price."""
    if service == "local":
        return lambda _: None
    from training.services.sagemaker.clients import Clients
    from training.services.sagemaker.prices import listed_price, table_price

    if table:
        return lambda instance_type: table_price(Path(table), instance_type)
    clients = Clients()
    return lambda instance_type: listed_price(clients, instance_type, home() / "prices.json", echo)


def prices(descriptions: Iterable[Description], price_of: PriceOf) -> dict[str, Price]:
    """Return the price of each instance type of a running job; each is looked up once."""
    types = {_instance_type(each) for each in descriptions if seconds_so_far(each) is not None}
    return {each: price for each in sorted(types) if each and (price := price_of(each))}


def seconds_so_far(description: Description) -> float | None:
    """Return the billed time of a running job in seconds, or None if it has not started or has ended."""
    started = description.get("TrainingStartTime")
    if started is None or description["TrainingJobStatus"] in TERMINAL_STATUSES:
        return None
    return float((datetime.now(UTC) - started).total_seconds())


def usd_so_far(description: Description, known: dict[str, Price]) -> float | None:
    """Return the cost of a running job so far, USD; None if unknown. For spot capacity it is an upper bound."""
    seconds, price = seconds_so_far(description), known.get(_instance_type(description))
    if seconds is None or price is None:
        return None
    return price.usd(instance_seconds(seconds, instance_count(description)))


def total(descriptions: Iterable[Description], known: dict[str, Price]) -> str:
    """Return a line with the total cost of running jobs, or an empty text if no price is known."""
    costs = [usd for each in descriptions if (usd := usd_so_far(each, known)) is not None]
    sources = sorted({f"{price.source}, {price.date}" for price in known.values()})
    return f"{len(costs)} running, {sum(costs):.2f} USD so far ({'; '.join(sources)})" if costs else ""


def _instance_type(description: Description) -> str:
    resources = description.get("ResourceConfig", {})
    return str(resources.get("SelectedInstanceType") or resources.get("InstanceType", ""))
