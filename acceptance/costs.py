"""Most that each step of an acceptance can cost, by the arithmetic of budgets. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from acceptance.steps import INSTANCE_TYPE, LIMIT_SECONDS, Step
from training.contract.budget import NOTHING, Amount, Budget, overhead_seconds, total, worst_case
from training.contract.budget_text import amount_text
from training.contract.errors import InputError
from training.contract.job_spec import JobSpec
from training.contract.price import Price, instance_seconds


@dataclass(frozen=True, kw_only=True)
class StepCost:
    """Most that one step can cost."""

    name: str
    work: str
    """The billed work, such as `2 jobs of at most 390 s`."""
    amount: Amount


@dataclass(frozen=True, kw_only=True)
class Prices:
    """Prices of the instance type. None if a price is unknown."""

    training: Price | None
    hosting: Price | None


def job_spec(step: Step) -> JobSpec:
    """Return the part of a step's jobs that decides their cost."""
    return JobSpec(
        name="acceptance",
        hyperparameters={},
        channels={},
        source_uri="s3://bucket/source",
        output_uri="s3://bucket/output",
        instance_type=INSTANCE_TYPE,
        max_run_seconds=LIMIT_SECONDS,
        **dict(step.machine),
    )


def job_cost(step: Step, prices: Prices) -> Amount:
    """Return the most that one job of a step can cost: its time limit, the time to stop it, and its warm pool."""
    return worst_case(job_spec(step), prices.training)


def step_costs(steps: Mapping[str, Step], prices: Prices) -> list[StepCost]:
    """Return the most that each step can cost."""
    return [StepCost(name=name, work=_work(step), amount=_amount(step, prices)) for name, step in steps.items()]


def check_budget(costs: Sequence[StepCost], budget_usd: float) -> None:
    """Raise InputError if the steps could cost more than the budget, or if a price is unknown."""
    amount = total(each.amount for each in costs)
    if amount.usd is None:
        raise InputError(
            f"The price of {INSTANCE_TYPE} is unknown, so the cost has no limit: set PRICES to a price table "
            "(docs/aws.md, Costs). Nothing was started."
        )
    if not Budget(max_usd=budget_usd).allows(amount):
        needed = math.ceil(100 * amount.usd) / 100
        raise InputError(
            f"BUDGET is {budget_usd:g} USD, but the steps can cost {needed:.2f} USD: set BUDGET to that or more. "
            "Nothing was started."
        )


def cost_table(costs: Sequence[StepCost], prices: Prices, budget_usd: float) -> list[str]:
    """Return the lines of a table: the most that each step can cost, and the total."""
    width = max(len(each.name) for each in costs)
    works = max(len(each.work) for each in costs)
    lines = [f"{each.name:<{width}}  {each.work:<{works}}  {_usd(each.amount):>10}" for each in costs]
    amount = total(each.amount for each in costs)
    texts = {f"{price.usd_per_hour:g} USD per hour ({price.source}, {price.date})" for price in _known(prices)}
    lines.append(f"{'total':<{width}}  {'':<{works}}  {_usd(amount):>10}")
    lines.append(f"Price of {INSTANCE_TYPE}: {'; '.join(sorted(texts)) or 'unknown'}. Budget: {budget_usd:g} USD.")
    lines.append("An endpoint is billed until it is deleted. Storage and logs cost less than a cent.")
    return lines


def usd_text(amount: Amount) -> str:
    """Return known dollars for an option, rounded up to a millionth."""
    assert amount.usd is not None
    return f"{math.ceil(1e6 * amount.usd) / 1e6:.6f}"


def _known(prices: Prices) -> list[Price]:
    return [price for price in (prices.training, prices.hosting) if price]


def _amount(step: Step, prices: Prices) -> Amount:
    jobs = job_cost(step, prices).times(step.jobs) if step.jobs else NOTHING
    if not step.endpoint_seconds:
        return jobs
    seconds = instance_seconds(step.endpoint_seconds, 1)
    return jobs + Amount(seconds=seconds, usd=prices.hosting.usd(seconds) if prices.hosting else None)


def _work(step: Step) -> str:
    if step.endpoint_seconds:
        return f"1 endpoint for at most {step.endpoint_seconds:,} s"
    if not step.jobs:
        return "nothing on SageMaker but the server's own calls"
    spec = job_spec(step)
    seconds = spec.max_run_seconds + overhead_seconds(spec)
    text = f"{step.jobs} job{'s' * (step.jobs > 1)} of at most {seconds:,.0f} s"
    text += f" on {spec.instance_count} instances" if spec.instance_count > 1 else ""
    return text + (f", {spec.keep_alive_seconds} s warm" if spec.keep_alive_seconds else "")


def _usd(amount: Amount) -> str:
    if amount.usd is None:
        return "unknown"
    return amount_text(amount, Budget(max_usd=1.0)) if amount.usd else "0 USD"
