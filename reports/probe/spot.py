"""Table and sentences about a training on spot capacity, next to the same training on demand, in reports and plans."""

from __future__ import annotations

import math
from collections.abc import Sequence

from reports.model.numbers import NONE, durations, figure, money
from reports.model.report import Column, Definition, Table, build_table
from tracking.recorded.spot_cost import Spent, SpotEstimate

Labelled = tuple[str, SpotEstimate]
"""Label of an arm, and its estimate."""
DEFINITION = Definition(
    "On spot",
    "Expected running time if interruptions arrive at random at the rate of machine.interruptions_per_hour, on each "
    "instance. Each one loses the work since the last complete checkpoint, also one that is being written, and costs a "
    "new start-up; a warning before it is not counted on. Waits for capacity are neither known nor billed. The best "
    "interval between checkpoints is Daly's (2006): about sqrt(2 C M) for checkpoints of C seconds and M seconds "
    "between two interruptions.",
)


def spot_table(arms: Sequence[Labelled]) -> Table:
    """Return the table with a row for each arm: on demand, on spot, and with the best interval."""

    def billed(arm: Labelled) -> str:
        billable = arm[1].spot.billable_instance_seconds
        return figure(arm[1].spot.instance_seconds if billable is None else billable)

    def without_discount(arm: Labelled) -> str:
        return "without a discount" if arm[1].spot.billable_instance_seconds is None else ""

    has_usd = any(each.on_demand_usd is not None for _, each in arms)
    columns: list[Column[Labelled]] = [
        Column("arm", "arm", "", lambda arm: arm[0]),
        Column("on demand", "on\ndemand\ns", "s", lambda arm: figure(arm[1].on_demand_seconds)),
        *([Column("on demand", "on\ndemand\nUSD", "USD", lambda arm: money(arm[1].on_demand_usd))] if has_usd else []),
        Column("on spot", "spot\ns", "s", lambda arm: figure(arm[1].spot.seconds)),
        Column("billed on spot", "billed\ns", "instance s", billed, without_discount),
        *([Column("on spot", "spot\nUSD", "USD", lambda arm: money(arm[1].spot.usd))] if has_usd else []),
        Column("interruptions", "inter-\nrupted", "", lambda arm: figure(arm[1].spot.interruptions)),
        Column("checkpoint every", "save\nevery", "steps", lambda arm: _steps(arm[1].spot)),
        Column("best every", "best\nevery", "steps", lambda arm: _steps(arm[1].best)),
        Column("on spot at best", "best\ns", "s", lambda arm: figure(arm[1].best.seconds if arm[1].best else None)),
    ]
    return build_table("On spot capacity", columns, arms)


def spot_sentences(label: str, each: SpotEstimate) -> list[str]:
    """Return the estimate of one arm as sentences, with the rate and the discount on which it depends."""
    expectation, *remarks = spot_lines(each)
    return [f"On spot capacity, “{label}” {expectation}.", *(f"{text}." for text in remarks)]


def spot_lines(each: SpotEstimate) -> list[str]:
    """Return the lines of a plan about one job."""
    spot, terms = each.spot, each.terms
    rate = f"{terms.interruptions_per_hour:g} interruptions per hour and instance"
    if math.isinf(spot.seconds):
        lines = [f"would hardly ever end at {rate}: it writes too few checkpoints"]
    else:
        took, on_demand = durations(spot.seconds, each.on_demand_seconds)
        usd = f" and cost {money(spot.usd)} USD" if spot.usd is not None else ""
        instead = f" and {money(each.on_demand_usd)} USD" if usd and each.on_demand_usd is not None else ""
        interrupted = f"with {figure(spot.interruptions)} interruptions at {rate}"
        lines = [f"is expected to take {took}{usd}, {interrupted}; on demand {on_demand}{instead}"]
    if terms.discount_percent is None:
        lines.append("The discount is unknown: set machine.spot_discount_percent, or run a job on spot capacity")
    else:
        lines.append(f"The discount is {figure(terms.discount_percent)} %, from {terms.discount_source}")
    if each.best is not None:
        interval = f"{_steps(each.best)} steps, with which it takes {durations(each.best.seconds)[0]}"
        lines.append(f"The best interval between checkpoints is {interval}")
    elif spot.save_steps is None:
        lines.append("Without checkpoints, an interrupted training starts again from the beginning")
    return lines


def _steps(spent: Spent | None) -> str:
    return NONE if spent is None or spent.save_steps is None else f"{spent.save_steps:,}"
