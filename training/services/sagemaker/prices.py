"""Hourly prices of instance types, each with its source and date."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Literal

from training.contract.errors import ServiceError
from training.contract.price import Price
from training.services.sagemaker.clients import COMMERCIAL, Clients, partition_of, translated

CACHED_DAYS = 7

Component = Literal["Training", "Hosting"]
"""Use of the instance; the price list has a price for each use."""


def parse_price_list(entries: Iterable[str]) -> tuple[float, str] | None:
    """Return (USD per hour, ISO date of publication) of the only price in the entries, or None.

    An entry is a JSON text with `product`, `terms` and `publicationDate`. Equal prices count as one. If prices differ,
    the result is None, because it is unknown which price applies.
    """
    prices: set[float] = set()
    published = ""
    for entry in entries:
        product = json.loads(entry)
        published = max(published, str(product.get("publicationDate", "")))
        for term in product["terms"].get("OnDemand", {}).values():
            for dimension in term["priceDimensions"].values():
                # Prices in China are in CNY.
                if dimension["unit"] == "Hrs" and "USD" in dimension["pricePerUnit"]:
                    prices.add(float(dimension["pricePerUnit"]["USD"]))
    prices.discard(0.0)
    return (prices.pop(), published[:10]) if len(prices) == 1 else None


def listed_price(
    clients: Clients,
    instance_type: str,
    cache: Path,
    log: Callable[[str], None],
    component: Component = "Training",
    *,
    is_read_only: bool = False,
) -> Price | None:
    """Return the price of an instance type in the clients' region from AWS's price list, or None.

    Prices are cached in the file `cache` for a week; with `is_read_only`, the file stays as it is. If the list cannot
    be read, a note is logged and None returned.
    """
    key = f"{clients.region} {instance_type}" + ("" if component == "Training" else f" {component}")
    cached, today = _read_cache(cache), datetime.now(UTC).date()
    if key in cached and (today - date.fromisoformat(cached[key]["read"])).days <= CACHED_DAYS:
        return _price(cached[key])
    try:
        listed = parse_price_list(_price_list(clients, instance_type, component))
    except ServiceError as error:
        log(f"Note: costs are omitted: the price list could not be read: {error}")
        return None
    if listed is None:
        log(
            f"Note: costs are omitted: the price list does not have exactly one price for {key}; "
            "set aws.prices to a price table."
        )
        return None
    cached[key] = {"usd_per_hour": listed[0], "date": listed[1], "read": today.isoformat()}
    if is_read_only:
        return _price(cached[key])
    cache.parent.mkdir(parents=True, exist_ok=True)
    temporary = cache.with_name(f".{cache.name}.new")
    temporary.write_text(json.dumps(cached, indent=1))
    temporary.replace(cache)
    return _price(cached[key])


def _price_list(clients: Clients, instance_type: str, component: Component) -> list[str]:
    # In the list, instanceType is `ml.g5.xlarge-Training`; instanceName is the usual name of the type.
    fields = {"regionCode": clients.region, "instanceName": instance_type, "component": component}
    filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in fields.items()]
    # Only a few regions serve the price list, for all regions of their partition. Other partitions have none in USD.
    if (partition := partition_of(clients.region)) != COMMERCIAL:
        raise ServiceError(f"partition {partition} has none in USD; set aws.prices to a price table")
    pricing = clients.get("pricing", "us-east-1")
    with translated(f"The price of {instance_type}"):
        pages = pricing.get_paginator("get_products").paginate(
            ServiceCode="AmazonSageMaker", Filters=filters, FormatVersion="aws_v1"
        )
        return [entry for page in pages for entry in page["PriceList"]]


def _read_cache(cache: Path) -> dict[str, Any]:
    return dict(json.loads(cache.read_bytes())) if cache.exists() else {}


def _price(entry: Mapping[str, Any]) -> Price:
    return Price(usd_per_hour=float(entry["usd_per_hour"]), source="AWS price list", date=str(entry["date"]))
