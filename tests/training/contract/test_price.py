"""Cost of jobs on two instances, worked out by hand."""

from __future__ import annotations

import pytest

from training.contract.price import Price, instance_seconds
from training.contract.service import instance_count

PRICE = Price(usd_per_hour=1.8, source="a table", date="2026-11-01")
"""0.0005 USD per second of one instance."""


def test_two_instances_cost_twice_as_much() -> None:
    # 100 s on two instances are 200 instance seconds: 0.10 USD.
    billable = instance_seconds(100, 2)
    assert billable == 200
    assert PRICE.usd(billable) == pytest.approx(0.10)
    assert PRICE.usd(instance_seconds(100, 1)) == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("resources", "count"),
    [
        ({"InstanceCount": 2}, 2),
        ({"InstanceCount": 4, "SelectedInstanceType": "ml.b", "SelectedInstanceCount": 2}, 2),
        ({}, 1),
    ],
)
def test_the_selected_instances_are_counted(resources: dict[str, object], count: int) -> None:
    assert instance_count({"ResourceConfig": resources}) == count
