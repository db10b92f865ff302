"""Budget of an endpoint: its price over its lifetime must fit, because an endpoint costs as long as it exists."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime

from experiments.planning.budgets import WITHOUT_PRICE, why_no_price
from models.endpoints.protocol import EndpointSpec, EndpointState
from training.contract.budget import NOTHING, Amount, Budget
from training.contract.budget_text import amount_text, budget_text
from training.contract.errors import InputError
from training.contract.price import Price, instance_seconds


def read_budget(fields: Mapping[str, str]) -> Budget:
    """Return the budget of `--max_usd` and `--max_billable_seconds`. Raises InputError."""
    budget = Budget(
        **{name: _positive(name, fields[name]) for name in ("max_usd", "max_billable_seconds") if name in fields}
    )
    if budget.is_limited and fields.get("when_over", "delete") != "delete":
        raise InputError(
            f"--when_over is '{fields['when_over']}': an endpoint with a budget must be deleted when its lifetime ends."
        )
    return budget


def _positive(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise InputError(f"--{name} is '{text}': it must be a number above 0.")
    return value


def check_budget(spec: EndpointSpec, budget: Budget, price: Price | None, existing: EndpointState | None) -> None:
    """Raise InputError if the endpoint's lifetime, with its cost so far, does not fit into the budget."""
    if not budget.is_limited:
        return
    if budget.max_usd is not None and price is None:
        raise InputError(f"--max_usd is {budget.max_usd:g}, but {why_no_price(spec.machine)}. {WITHOUT_PRICE}.")
    spent = cost_so_far(existing, price) if existing else NOTHING
    left = budget.left(spent)
    longest = math.floor(_longest_seconds(spec, left, price))
    fits = f"--lifetime {longest}s" if longest >= 1 else "a larger budget"
    so_far = f", of which {amount_text(spent, budget)} are spent" if spent.seconds else ""
    limit = f"the budget of {budget_text(budget)}{so_far}"
    if spec.lifetime_seconds is None:
        raise InputError(f"{limit} needs a lifetime: set {fits}.")
    worst = _amount(spec.lifetime_seconds, spec.machines, price)
    if not budget.allows(spent + worst):
        raise InputError(
            f"--lifetime is {spec.lifetime_seconds:,.0f} s, in which the endpoint costs {amount_text(worst, budget)}: "
            f"that exceeds {limit}. Set {fits}."
        )


def cost_so_far(state: EndpointState, price: Price | None) -> Amount:
    """Return the cost of an existing endpoint until now."""
    until = state.ended or datetime.now(UTC)
    seconds = max(0.0, (until - (state.billed_from or state.created)).total_seconds())
    amount = _amount(seconds, state.machines, state.price or price)
    return amount + Amount(seconds=NOTHING.seconds, usd=state.billed_before_usd)


def _longest_seconds(spec: EndpointSpec, left: Budget, price: Price | None) -> float:
    seconds = math.inf if left.max_billable_seconds is None else left.max_billable_seconds / spec.machines
    if left.max_usd is not None and price is not None:
        seconds = min(seconds, left.max_usd / price.usd(instance_seconds(1.0, spec.machines)))
    return seconds


def _amount(seconds: float, machines: int, price: Price | None) -> Amount:
    billable = instance_seconds(seconds, machines)
    return Amount(seconds=billable, usd=price.usd(billable) if price else None)
