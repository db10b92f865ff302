"""What a machine costs an hour, with the source of the figure and its date; never a figure without them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Literal

from training.contract.errors import InputError, ServiceError
from training.contract.price import Price
from training.services.sagemaker.aws_errors import translated
from training.services.sagemaker.clients import Clients

PRICE_LIST_REGION = "us-east-1"
"""The price list is served in few regions, for all of them."""
CACHED_DAYS = 7

Component = Literal["Training", "Hosting"]
"""What the machine does: the list has a price for each."""


def parse_price_list(entries: Iterable[str]) -> tuple[float, str] | None:
    """Return (USD an hour, ISO date of publication) of the one price in the entries; None where there is not one.

    An entry is a JSON text with `product`, `terms` and `publicationDate`. Several entries of one price are one price;
    two prices are none, for nobody could say which was paid.
    """
    found: set[float] = set()
    published = ""
    for entry in entries:
        product = json.loads(entry)
        published = max(published, str(product.get("publicationDate", "")))
        for term in product["terms"].get("OnDemand", {}).values():
            for dimension in term["priceDimensions"].values():
                if dimension["unit"] == "Hrs":
                    found.add(float(dimension["pricePerUnit"]["USD"]))
    found.discard(0.0)
    return (found.pop(), published[:10]) if len(found) == 1 else None


def listed_price(
    clients: Clients,
    instance_type: str,
    cache: Path,
    say: Callable[[str], None],
    component: Component = "Training",
) -> Price | None:
    """Return what AWS's price list says of a machine type in the clients' region, or None.

    Answers are kept in the file `cache` for a week, with the day they were read. A list that cannot be read is said,
    and no reason not to go on.
    """
    key = f"{clients.region} {instance_type}" + ("" if component == "Training" else f" {component}")
    known = _cached(cache)
    if key in known and _age_days(known[key]["read"]) <= CACHED_DAYS:
        return _price(known[key])
    try:
        answer = parse_price_list(_asked(clients, instance_type, component))
    except ServiceError as error:
        say(f"Note: no money is told, for the price list was not read: {error}")
        return None
    if answer is None:
        say(f"Note: no money is told: the price list has not exactly one price of {key}; aws.prices names a table.")
        return None
    known[key] = {"usd_per_hour": answer[0], "date": answer[1], "read": _today().isoformat()}
    cache.parent.mkdir(parents=True, exist_ok=True)
    temporary = cache.with_name(f".{cache.name}.new")
    temporary.write_text(json.dumps(known, indent=1))
    temporary.replace(cache)
    return _price(known[key])


def table_price(table: Path, instance_type: str) -> Price | None:
    """Return the price in a table of the user's own: JSON, `{"date": ..., "usd_per_hour": {"ml.g5.xlarge": 1.4}}`.

    Raises InputError for a file that is not that.
    """
    try:
        read = json.loads(table.read_text("utf-8"))
        day, prices = date.fromisoformat(read["date"]), read["usd_per_hour"]
        value = prices.get(instance_type)
        figure = None if value is None else float(value)
    except OSError as error:
        raise InputError(f"Price table {table} cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f'Price table {table} must be JSON such as {{"date": "2026-11-01", "usd_per_hour": '
            f'{{"ml.g5.xlarge": 1.408}}}}: {error}.'
        ) from error
    if figure is None:
        return None
    if not 0 < figure < 10_000:
        raise InputError(f"Price table {table}: {instance_type} costs {figure}; a price is between 0 and 10,000 USD.")
    return Price(usd_per_hour=figure, source=table.name, date=day.isoformat())


def _asked(clients: Clients, instance_type: str, component: Component) -> list[str]:
    # instanceType is `ml.g5.xlarge-Training` in the list; instanceName is what everybody calls the type.
    wanted = {"regionCode": clients.region, "instanceName": instance_type, "component": component}
    filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wanted.items()]
    pricing = clients.get("pricing", PRICE_LIST_REGION)
    with translated(f"The price of {instance_type}"):
        pages = pricing.get_paginator("get_products").paginate(
            ServiceCode="AmazonSageMaker", Filters=filters, FormatVersion="aws_v1"
        )
        return [entry for page in pages for entry in page["PriceList"]]


def _cached(cache: Path) -> dict[str, Mapping[str, Any]]:
    try:
        return dict(json.loads(cache.read_text()))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ServiceError(f"{cache} is no cache of prices: {error}. Delete it.") from error


def _price(known: Mapping[str, Any]) -> Price:
    return Price(usd_per_hour=float(known["usd_per_hour"]), source="AWS price list", date=str(known["date"]))


def _age_days(read: str) -> int:
    return (_today() - date.fromisoformat(read)).days


def _today() -> date:
    return datetime.now(UTC).date()
