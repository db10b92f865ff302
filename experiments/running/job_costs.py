"""What jobs that run have cost so far: seconds since they began to be billed, at a price with its source and date."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

from training.contract.price import Price, instance_seconds
from training.contract.service import TERMINAL_STATUSES, Description, instance_count
from training.state.home import home

PriceOf = Callable[[str], Price | None]
"""From machine type to what one costs, where that is known."""


def price_of(service: str, table: str | None, say: Callable[[str], None]) -> PriceOf:
    """Return the prices of a service's machines: of a user's table, else AWS's list; this machine has none."""
    if service == "local":
        return lambda _: None
    from training.services.sagemaker.clients import Clients
    from training.services.sagemaker.prices import listed_price, table_price

    if table:
        return lambda kind: table_price(Path(table), kind)
    clients = Clients()
    return lambda kind: listed_price(clients, kind, home() / "prices.json", say)


def prices(descriptions: Iterable[Description], ask: PriceOf) -> dict[str, Price]:
    """Return the price of each machine type that runs now, asked once each."""
    kinds = {_kind(each) for each in descriptions if seconds_so_far(each) is not None}
    return {kind: price for kind in sorted(kinds) if kind and (price := ask(kind))}


def seconds_so_far(description: Description) -> float | None:
    """Return for how long a job that has not ended has been billed, seconds; None of any other."""
    started = description.get("TrainingStartTime")
    if started is None or description["TrainingJobStatus"] in TERMINAL_STATUSES:
        return None
    return float((datetime.now(UTC) - started).total_seconds())


def usd_so_far(description: Description, known: dict[str, Price]) -> float | None:
    """Return what a job that runs has cost so far, where that is known; spot capacity costs that at most."""
    seconds, price = seconds_so_far(description), known.get(_kind(description))
    if seconds is None or price is None:
        return None
    return price.usd(instance_seconds(seconds, instance_count(description)))


def total(descriptions: Iterable[Description], known: dict[str, Price]) -> str:
    """Return the sentence that sums up what runs, or nothing where no price is known."""
    costs = [usd for each in descriptions if (usd := usd_so_far(each, known)) is not None]
    sources = sorted({f"{price.source}, {price.date}" for price in known.values()})
    return f"{len(costs)} running, {sum(costs):.2f} USD so far ({'; '.join(sources)})" if costs else ""


def _kind(description: Description) -> str:
    resources = description.get("ResourceConfig", {})
    return str(resources.get("SelectedInstanceType") or resources.get("InstanceType", ""))
