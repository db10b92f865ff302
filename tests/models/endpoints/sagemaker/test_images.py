"""Choice of an inference image for a trained model, and the price of hosting it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from models.endpoints.sagemaker.images import chosen, inference_image, trained_with
from tests.support.aws.account import Account
from tests.support.aws.api import Api
from training.contract.errors import InputError
from training.contract.price import Price
from training.services.sagemaker.clients import Clients
from training.services.sagemaker.prices import listed_price

LISTED = [(4, 26, 0), (4, 28, 1), (4, 51, 3), (5, 5, 3)]


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ((4, 28, 1), (4, 28, 1)),
        ((4, 21, 1), (4, 26, 0)),
        ((4, 26, 1), (4, 28, 1)),
        ((4, 56, 2), (4, 51, 3)),
        ((5, 3, 0), (5, 5, 3)),
        ((5, 23, 0), (5, 5, 3)),
        ((6, 0, 0), (5, 5, 3)),
        (None, (5, 5, 3)),
    ],
)
def test_the_closest_suitable_version_is_chosen(
    version: tuple[int, int, int] | None, expected: tuple[int, int, int]
) -> None:
    assert chosen(version, LISTED) == expected


def test_the_version_is_read_from_the_runs_packages() -> None:
    assert trained_with("torch 2.9.0, transformers 5.3.0") == (5, 3, 0)
    assert trained_with("torch 2.13.0+cpu, transformers 4.57") == (4, 57, 0)
    assert trained_with("") is None


REGISTRY = "763104351884.dkr.ecr.us-east-1.amazonaws.com/huggingface-pytorch-inference"


@pytest.mark.parametrize(
    ("versions", "machine", "tag", "note"),
    [
        ("transformers 4.26.0", "ml.g4dn.xlarge", "1.13.1-transformers4.26.0-gpu-py39-cu117-ubuntu20.04", None),
        ("transformers 4.26.0", "ml.m5.xlarge", "1.13.1-transformers4.26.0-cpu-py39-ubuntu20.04", None),
        (
            "torch 1.11.0, transformers 4.21.1",
            "ml.g4dn.xlarge",
            "1.13.1-transformers4.26.0-gpu-py39-cu117-ubuntu20.04",
            "trained with Transformers 4.21.1; AWS's nearest image has 4.26.0",
        ),
        (
            "",
            "ml.g5.xlarge",
            "2.6.0-transformers5.5.3-gpu-py312-cu124-ubuntu22.04",
            "trained with Transformers of an unknown version; AWS's nearest image has 5.5.3",
        ),
    ],
)
def test_the_image_fits_the_version_and_the_machine(versions: str, machine: str, tag: str, note: str | None) -> None:
    assert inference_image(versions, machine, "us-east-1") == (f"{REGISTRY}:{tag}", note)


def test_a_missing_image_is_reported() -> None:
    with pytest.raises(InputError, match=r"AWS lists no inference image for banana in us-east-1 \(Invalid SageMaker"):
        inference_image("", "banana", "us-east-1")
    with pytest.raises(InputError, match=r"AWS lists no inference image for ml\.g5\.xlarge in mars-1"):
        inference_image("", "ml.g5.xlarge", "mars-1")


PRICES = {"Training": "0.7364", "Hosting": "0.7375"}


def products(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the price list's response for one instance type."""
    fields = {each["Field"]: each["Value"] for each in request["Filters"]}
    assert (fields["regionCode"], fields["instanceName"]) == ("us-east-1", "ml.g4dn.xlarge")
    rate = {"unit": "Hrs", "pricePerUnit": {"USD": PRICES[fields["component"]]}}
    terms = {"OnDemand": {"SKU.OFFER": {"priceDimensions": {"RATE": rate}}}}
    return {"PriceList": [json.dumps({"terms": terms, "publicationDate": "2026-10-01T00:00:00Z"})]}


def test_hosting_has_a_separate_price(account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clients, cache = Clients(), tmp_path / "prices.json"
    with Api("pricing", {"GetProducts": products}) as served:
        monkeypatch.setenv("AWS_ENDPOINT_URL_PRICING", served.url)
        for _ in range(2):
            training = listed_price(clients, "ml.g4dn.xlarge", cache, print)
            hosting = listed_price(clients, "ml.g4dn.xlarge", cache, print, "Hosting")
            assert training == Price(usd_per_hour=0.7364, source="AWS price list", date="2026-10-01")
            assert hosting == Price(usd_per_hour=0.7375, source="AWS price list", date="2026-10-01")
        assert len(served.calls) == 2
