"""Texts about a budget. Pure."""

from __future__ import annotations

from training.contract.budget import Amount, Budget, Spending


def amount_text(amount: Amount, budget: Budget | None = None) -> str:
    """Return an amount, such as `1,500 s and 1.25 USD`; with a budget, only in the units that it limits."""
    limits = budget if budget and budget.is_limited else Budget(max_usd=0.0, max_billable_seconds=0.0)
    seconds = None if limits.max_billable_seconds is None else amount.seconds
    usd = None if limits.max_usd is None else amount.usd
    return _joined(seconds, usd) or "an unknown number of dollars"


def budget_text(budget: Budget) -> str:
    """Return the limits of a budget, such as `5.00 USD`."""
    return _joined(budget.max_billable_seconds, budget.max_usd) or "no limit"


def budget_sentence(state: Spending) -> str:
    """Return the spent and the remaining part of a budget, without its full stop."""
    spent = amount_text(state.spent, state.budget)
    return f"Budget of {budget_text(state.budget)}: {spent} spent, {budget_text(state.left)} left"


def _joined(seconds: float | None, usd: float | None) -> str:
    texts = [] if seconds is None else [f"{seconds:,.0f} s" if seconds >= 100 else f"{seconds:,.1f} s"]
    texts += [] if usd is None else [f"{usd:,.2f} USD" if usd >= 0.1 else f"{usd:,.4f} USD"]
    return " and ".join(texts)
