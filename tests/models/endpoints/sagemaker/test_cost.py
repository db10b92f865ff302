"""Cost of an endpoint: AWS's price for hosting, which differs from the price for training."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.aws.account import Account
from tests.support.aws.api import BROKEN, Api
from training.contract.price import Price
from training.services.sagemaker.clients import Clients
from training.services.sagemaker.prices import listed_price

PRICES = {"Training": "0.7364", "Hosting": "0.7375"}


def products(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the price list's response for one instance type."""
    fields = {each["Field"]: each["Value"] for each in request["Filters"]}
    assert (fields["regionCode"], fields["instanceName"]) == ("us-east-1", "ml.g4dn.xlarge")
    rate = {"unit": "Hrs", "pricePerUnit": {"USD": PRICES[fields["component"]]}}
    terms = {"OnDemand": {"SKU.OFFER": {"priceDimensions": {"RATE": rate}}}}
    return {"PriceList": [json.dumps({"terms": terms, "publicationDate": "2026-10-01T00:00:00Z"})]}


@pytest.fixture
def price_list(account: Account, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with Api("pricing", {"GetProducts": products}) as served:
        monkeypatch.setenv("AWS_ENDPOINT_URL_PRICING", served.url)
        yield served


def test_hosting_has_a_separate_price(price_list: Api, tmp_path: Path) -> None:
    clients, cache, messages = Clients(), tmp_path / "prices.json", list[str]()
    for _ in range(2):
        training = listed_price(clients, "ml.g4dn.xlarge", cache, messages.append)
        hosting = listed_price(clients, "ml.g4dn.xlarge", cache, messages.append, "Hosting")
        assert training == Price(usd_per_hour=0.7364, source="AWS price list", date="2026-10-01")
        assert hosting == Price(usd_per_hour=0.7375, source="AWS price list", date="2026-10-01")
    assert len(price_list.calls) == 2
    assert messages == []


def test_an_unreadable_price_list_does_not_stop_the_command(price_list: Api, tmp_path: Path) -> None:
    messages: list[str] = []
    price_list.faults.last("GetProducts", BROKEN)
    assert listed_price(Clients(), "ml.g4dn.xlarge", tmp_path / "prices.json", messages.append, "Hosting") is None
    assert messages[0].startswith("Note: costs are omitted: the price list could not be read")
