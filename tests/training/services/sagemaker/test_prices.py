"""Prices of instance types, from the price list or a table, or None if the figures differ."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from training.contract.errors import InputError
from training.contract.price import Price
from training.contract.price_table import table_price
from training.services.sagemaker.clients import Clients
from training.services.sagemaker.prices import listed_price, parse_price_list


def entry(price: str, unit: str = "Hrs", currency: str = "USD") -> str:
    """Return an entry of the price list. That of China states CNY."""
    dimension = {"unit": unit, "pricePerUnit": {currency: price}}
    terms = {"OnDemand": {"SKU.OFFER": {"priceDimensions": {"RATE": dimension}}}}
    return json.dumps({"product": {"sku": "SKU"}, "terms": terms, "publicationDate": "2026-10-01T00:00:00Z"})


def test_the_only_price_is_returned_with_its_date() -> None:
    assert parse_price_list([entry("1.515")]) == (1.515, "2026-10-01")
    assert parse_price_list([entry("1.515"), entry("1.5150"), entry("0")]) == (1.515, "2026-10-01")


def test_without_a_unique_price_in_dollars_the_result_is_none() -> None:
    for entries in ([], [entry("1.515"), entry("1.408")], [entry("1.515", "Quantity")], [entry("9.5", currency="CNY")]):
        assert parse_price_list(entries) is None
    assert parse_price_list([json.dumps({"terms": {}})]) is None


def test_a_price_is_read_from_a_table(tmp_path: Path) -> None:
    table = tmp_path / "prices.json"
    table.write_text(json.dumps({"date": "2026-11-01", "usd_per_hour": {"ml.g5.xlarge": 1.1}}))
    assert table_price(str(table), "ml.g5.xlarge", "aws.prices") == Price(
        usd_per_hour=1.1, source="prices.json", date="2026-11-01"
    )
    assert table_price(str(table), "ml.g5.2xlarge", "aws.prices") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "must be JSON or YAML such as"),
        (
            '{"date": "2026-11-01", "usd_per_hour": {"ml.g5.xlarge": -1}}',
            "ml.g5.xlarge is -1.0; a price must be",
        ),
    ],
)
def test_an_invalid_table_is_rejected(tmp_path: Path, text: str, message: str) -> None:
    table = tmp_path / "prices.json"
    table.write_text(text)
    with pytest.raises(InputError, match=message):
        table_price(str(table), "ml.g5.xlarge", "aws.prices")


def test_a_missing_table_and_a_device_are_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file or directory"):
        table_price(str(tmp_path / "none.json"), "ml.g5.xlarge", "aws.prices")
    with pytest.raises(InputError, match=r"^Price table /dev/zero cannot be read: it is not a regular file\.$"):
        table_price("/dev/zero", "ml.g5.xlarge", "aws.prices")


def test_a_partition_without_a_price_list_omits_costs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "a")
    cache, messages = tmp_path / "prices.json", list[str]()
    assert listed_price(Clients("us-gov-west-1"), "ml.g5.xlarge", cache, messages.append) is None
    assert messages == [
        "Note: costs are omitted: the price list could not be read: partition aws-us-gov has none in USD; set "
        "aws.prices to a price table"
    ]
