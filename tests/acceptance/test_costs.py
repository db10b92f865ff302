"""The most that an acceptance can cost, worked out by hand, and its refusal over the budget."""

from __future__ import annotations

import pytest

from acceptance.costs import Prices, check_budget, cost_table, job_cost, step_costs, usd_text
from acceptance.steps import STEPS, needed_quotas
from training.contract.budget import total
from training.contract.errors import InputError
from training.contract.price import Price

CENT_A_SECOND = Price(usd_per_hour=36.0, source="prices.json", date="2026-11-01")
T4 = Price(usd_per_hour=0.7364, source="prices.json", date="2026-11-01")


def test_each_step_costs_its_limits_times_the_price() -> None:
    costs = step_costs(STEPS, Prices(training=CENT_A_SECOND, hosting=CENT_A_SECOND))
    seconds = {each.name: each.amount.seconds for each in costs}
    # A job: 240 s, 120 s to stop it and 30 s to upload. A warm pool: 120 s for each of two jobs.
    assert seconds == {
        "own-task": 390,
        "script": 390,
        "spot-stop": 2 * 390,
        "two-machines": 2 * 390,
        "warm-pool": 2 * (390 + 120),
        "endpoint": 1200,
        "managed-mlflow": 0,
    }
    assert {each.name: each.amount.usd for each in costs} == {
        name: pytest.approx(each / 100) for name, each in seconds.items()
    }


def test_everything_fits_into_a_dollar_at_the_documented_price() -> None:
    costs = step_costs(STEPS, Prices(training=T4, hosting=T4))
    # 4,560 s at 0.7364 USD per hour.
    assert total(each.amount for each in costs).usd == pytest.approx(0.93277, abs=1e-5)
    check_budget(costs, 1.0)


def test_training_and_hosting_have_their_own_prices() -> None:
    costs = step_costs(STEPS, Prices(training=T4, hosting=CENT_A_SECOND))
    assert next(each.amount.usd for each in costs if each.name == "endpoint") == pytest.approx(12.0)


def test_a_budget_that_is_too_small_is_refused() -> None:
    costs = step_costs(STEPS, Prices(training=T4, hosting=T4))
    with pytest.raises(InputError, match=r"BUDGET is 0.9 USD, but the steps can cost 0.94 USD: set BUDGET to that"):
        check_budget(costs, 0.9)


@pytest.mark.parametrize("prices", [Prices(training=None, hosting=T4), Prices(training=T4, hosting=None)])
def test_an_unknown_price_is_refused(prices: Prices) -> None:
    costs = step_costs(STEPS, prices)
    with pytest.raises(InputError, match=r"The price of ml.g4dn.xlarge is unknown.*set PRICES"):
        check_budget(costs, 1000.0)
    assert any("unknown" in line for line in cost_table(costs, prices, 1.0))


def test_the_budget_of_a_command_is_not_below_its_worst_case() -> None:
    amount = job_cost(STEPS["two-machines"], Prices(training=T4, hosting=T4))
    assert amount.usd == pytest.approx(780 * 0.7364 / 3600)
    assert usd_text(amount) == "0.159554"


def test_quotas_are_those_of_steps_that_run_one_after_the_other() -> None:
    assert needed_quotas(STEPS) == {
        "ml.g4dn.xlarge for training job usage": 2,
        "ml.g4dn.xlarge for spot training job usage": 1,
        "ml.g4dn.xlarge for training warm pool usage": 1,
        "ml.g4dn.xlarge for endpoint usage": 1,
    }
