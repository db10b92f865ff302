"""Names, units and number formats of a sweep's cost and quality."""

from __future__ import annotations

from reports.model.numbers import figure, money
from reports.sweep.sweep import Sweep
from reports.sweep.trials import Setting, Trial

NOUNS = {"billable_seconds": "billable seconds", "usd": "dollars", "steady_samples_per_second": "samples/s"}
UNITS = {"billable_seconds": "s", "usd": "USD", "steady_samples_per_second": "samples/s"}


def cost_noun(sweep: Sweep) -> str:
    """Return the quantity that the objective measures, such as `billable seconds`."""
    return NOUNS.get(sweep.spec.cost, sweep.spec.cost)


def cost_unit(sweep: Sweep) -> str:
    """Return the unit of the objective's cost."""
    return UNITS.get(sweep.spec.cost, "")


def cost_name(sweep: Sweep) -> str:
    """Return a label of the objective's cost with its target, such as `billable seconds to eval_loss 0.45`."""
    target = sweep.spec.target
    return f"{cost_noun(sweep)} to {quality_name(sweep)} {target:g}" if target is not None else cost_noun(sweep)


def cost_figure(sweep: Sweep, cost: float) -> str:
    """Return a cost as text, without its unit."""
    return money(cost) if sweep.spec.cost == "usd" else figure(cost)


def cost_text(sweep: Sweep, trial: Trial) -> str:
    """Return a trial's cost with its unit, such as `62.0 billable seconds`."""
    return f"{cost_figure(sweep, trial.mean_cost)} {cost_noun(sweep)}"


def quality_name(sweep: Sweep) -> str:
    """Return the metric of the quality, or `quality` if unknown."""
    return sweep.spec.metric or "quality"


def comma_after(setting: Setting) -> str:
    """Return the comma that must follow a setting whose name contains a comma; empty for other settings."""
    return "," if "," in str(setting) else ""
