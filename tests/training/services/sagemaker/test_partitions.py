"""China, GovCloud and the other partitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from training.services.sagemaker.clients import Clients, partition_of, price_list_region, role_of
from training.services.sagemaker.prices import listed_price, parse_price_list
from training.services.sagemaker.service import SageMakerService

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}


@pytest.mark.parametrize(
    ("region", "partition", "price_list"),
    [
        ("eu-central-1", "aws", "us-east-1"),
        ("us-west-2", "aws", "us-east-1"),
        ("cn-north-1", "aws-cn", "cn-northwest-1"),
        ("us-gov-west-1", "aws-us-gov", None),
        ("us-iso-east-1", "aws-iso", "us-iso-east-1"),
        # A region that is newer than botocore.
        ("moon-central-1", "aws", "us-east-1"),
    ],
)
def test_each_region_has_its_partition(region: str, partition: str, price_list: str | None) -> None:
    assert (partition_of(region), price_list_region(region)) == (partition, price_list)


@pytest.mark.parametrize(
    ("region", "start"),
    [
        ("us-east-1", "https://us-east-1.console.aws.amazon.com/cloudwatch/home?region=us-east-1#logsV2:log-groups"),
        ("cn-north-1", "https://cn-north-1.console.amazonaws.cn/cloudwatch/home?region=cn-north-1#logsV2:"),
        ("us-gov-west-1", "https://us-gov-west-1.console.amazonaws-us-gov.com/cloudwatch/home?region=us-gov-west-1#"),
        ("us-iso-east-1", "CloudWatch log group /aws/sagemaker/TrainingJobs in us-iso-east-1, streams demo/*"),
    ],
)
def test_logs_are_found_in_the_console_of_the_partition(
    region: str, start: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    location = SageMakerService(Clients(region)).log_location("demo")
    assert location.startswith(start)
    if "http" in location:
        assert location.endswith("/$252Faws$252Fsagemaker$252FTrainingJobs$3FlogStreamNameFilter$3Ddemo$252F")


@pytest.mark.parametrize("partition", ["aws", "aws-cn", "aws-us-gov"])
def test_roles_of_every_partition_are_accepted(partition: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    role = f"arn:{partition}:iam::123456789012:role/trainer"
    assert role_of(Clients("us-east-1"), role) == role


def test_prices_that_are_not_in_dollars_are_unknown() -> None:
    """The price list of China states CNY."""
    entry = (
        '{"product": {}, "publicationDate": "2026-11-01", "terms": {"OnDemand": {"a": {"priceDimensions": {"b": '
        '{"unit": "Hrs", "pricePerUnit": {"CNY": "9.5"}}}}}}}'
    )
    assert parse_price_list([entry]) is None


def test_a_partition_without_a_price_list_omits_costs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    cache, messages = tmp_path / "prices.json", list[str]()
    assert listed_price(Clients("us-gov-west-1"), "ml.g5.xlarge", cache, messages.append) is None
    assert messages == [
        "Note: costs are omitted: the price list could not be read: partition aws-us-gov has none; set aws.prices to a "
        "price table"
    ]
