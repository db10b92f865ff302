"""Table and sentences about a training on spot capacity, next to the same training on demand, in reports and plans."""

from __future__ import annotations

import math
from collections.abc import Sequence

from reports.model.numbers import durations, figure, money
from reports.model.report import Cell, Column, Table, build_table, number_cell
from tracking.recorded.recorded_job import SpotEstimate

Labelled = tuple[str, SpotEstimate]
"""Label of an arm, and its estimate."""


def spot_table(arms: Sequence[Labelled]) -> Table:
    """Return the table with a row for each arm: on demand, on spot, and with the best interval."""

    def billed(arm: Labelled) -> Cell:
        spot = arm[1].spot
        if spot.billable_instance_seconds is None:
            return number_cell(spot.instance_seconds, detail="without a discount")
        return number_cell(spot.billable_instance_seconds)

    on_spot_usd: Column[Labelled] = Column(
        "on spot", lambda arm: arm[1].spot.usd, head="spot\nUSD", unit="USD", text=money
    )
    columns = [
        Column[Labelled]("arm", lambda arm: arm[0]),
        Column[Labelled]("on demand", lambda arm: arm[1].on_demand_seconds, unit="s"),
        Column[Labelled]("on demand", lambda arm: arm[1].on_demand_usd, unit="USD", text=money, is_optional=True),
        Column[Labelled]("on spot", lambda arm: arm[1].spot.seconds, head="spot\ns", unit="s"),
        Column[Labelled]("billed on spot", billed, head="billed\ns", unit="instance s"),
        *([on_spot_usd] if any(each.on_demand_usd is not None for _, each in arms) else []),
        Column[Labelled]("interruptions", lambda arm: arm[1].spot.interruptions, head="inter-\nrupted"),
        Column[Labelled]("checkpoint every", lambda arm: arm[1].spot.save_steps, head="save\nevery", unit="steps"),
        Column[Labelled](
            "best every", lambda arm: arm[1].best.save_steps if arm[1].best else None, head="best\nevery", unit="steps"
        ),
        Column[Labelled](
            "on spot at best", lambda arm: arm[1].best.seconds if arm[1].best else None, head="best\ns", unit="s"
        ),
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
        interval = f"{each.best.save_steps:,} steps, with which it takes {durations(each.best.seconds)[0]}"
        lines.append(f"The best interval between checkpoints is {interval}")
    elif spot.save_steps is None:
        lines.append("Without checkpoints, an interrupted training starts again from the beginning")
    return lines
