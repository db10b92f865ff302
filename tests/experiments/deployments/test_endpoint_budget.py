"""An endpoint's lifetime must fit into its budget; the figures are worked out by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from experiments.deployments.endpoint_budget import check_budget, cost_so_far, read_budget
from models.endpoints.protocol import EndpointSpec, EndpointState
from training.contract.budget import Budget
from training.contract.errors import InputError
from training.contract.price import Price

PRICE = Price(usd_per_hour=3.6, source="table", date="2026-11-01")  # 0.001 USD a second


def spec(lifetime_seconds: float | None, machines: int = 1) -> EndpointSpec:
    return EndpointSpec(
        name="e", model=Path(), machine="ml.m5.large", machines=machines, lifetime_seconds=lifetime_seconds
    )


def test_a_lifetime_that_fits_is_accepted() -> None:
    check_budget(spec(1000), Budget(max_usd=1), PRICE, None)
    check_budget(spec(500, machines=2), Budget(max_usd=1, max_billable_seconds=1000), PRICE, None)
    check_budget(spec(None), Budget(), None, None)


def test_a_lifetime_that_is_too_long_is_refused_with_the_longest_one() -> None:
    """1 USD is 1000 s of one instance, 500 s of two."""
    with pytest.raises(
        InputError, match=r"--lifetime is 600 s.* 1\.20 USD: .*budget of 1\.00 USD\. Set --lifetime 500"
    ):
        check_budget(spec(600, machines=2), Budget(max_usd=1), PRICE, None)
    with pytest.raises(InputError, match=r"the budget of 1\.00 USD needs a lifetime: set --lifetime 1000s\."):
        check_budget(spec(None), Budget(max_usd=1), PRICE, None)


def test_the_cost_so_far_counts() -> None:
    """It has cost 0.2 USD on earlier machines and 0.3 USD in 300 s: 500 s are left of 1 USD."""
    began = datetime.now(UTC) - timedelta(seconds=900)
    state = EndpointState(
        name="e", service="sagemaker", status="Failed", identity="i", address="a", machine="ml.m5.large",
        created=began, ended=began + timedelta(seconds=300), price=PRICE, billed_before_usd=0.2,
    )  # fmt: skip
    cost = cost_so_far(state, None)
    assert (cost.seconds, cost.usd) == (300, pytest.approx(0.5))
    check_budget(spec(499), Budget(max_usd=1), PRICE, state)
    with pytest.raises(InputError, match=r"of which 0\.50 USD are spent\. Set --lifetime"):
        check_budget(spec(501), Budget(max_usd=1), PRICE, state)


def test_dollars_need_a_price() -> None:
    with pytest.raises(InputError, match=r"the price of ml\.m5\.large is unknown: set aws\.prices"):
        check_budget(spec(10), Budget(max_usd=1), None, None)


def test_an_endpoint_with_a_budget_must_end() -> None:
    assert read_budget({"max_usd": "2.5"}) == Budget(max_usd=2.5)
    assert not read_budget({"when_over": "warn"}).is_limited
    with pytest.raises(InputError, match="when_over is 'warn': an endpoint with a budget must be deleted"):
        read_budget({"max_usd": "2.5", "when_over": "warn"})
    for text in ("0", "-1", "nan", "five"):
        with pytest.raises(InputError, match=f"--max_usd is '{text}': it must be a number above 0"):
            read_budget({"max_usd": text})
