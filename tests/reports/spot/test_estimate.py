"""Expected time and cost on spot capacity, worked out by hand, and the sentences about them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from reports.model.report import texts_by_title
from reports.probe.spot import Terms, Times, spot_estimate, spot_lines, spot_sentences, spot_table
from training.contract.price import Price

PER_HOUR = 36 * math.log(2)
"""Rate at which half of all runs of 100 s are interrupted."""
TIMES = Times(total_seconds=300.0, startup_seconds=100.0, checkpoint_seconds=10.0, checkpoints=2, steps=180)
"""Start-up 100 s, two parts of 90 s of work with a checkpoint of 10 s each; a step takes a second."""
DOLLAR_A_SECOND = Price(usd_per_hour=3600.0, source="table", date="2026-11-01")
TERMS = Terms(
    interruptions_per_hour=PER_HOUR, discount_percent=70.0, discount_source="the experiment", price=DOLLAR_A_SECOND
)


def test_time_and_cost_by_hand() -> None:
    """The first part takes 3 / rate, the second 2 / rate: 5 / (ln 2 / 100) = 721.35 s, at 0.30 USD a second."""
    estimate = spot_estimate(TIMES, TERMS)
    assert estimate is not None
    assert (estimate.on_demand_seconds, estimate.on_demand_usd) == (300.0, 300.0)
    assert estimate.spot.seconds == pytest.approx(721.3475, abs=1e-4)
    assert estimate.spot.interruptions == pytest.approx(5.0)
    assert estimate.spot.save_steps == 90
    assert estimate.spot.billable_instance_seconds == pytest.approx(216.4043, abs=1e-4)
    assert estimate.spot.usd == pytest.approx(216.4043, abs=1e-4)


def test_the_best_interval_by_hand() -> None:
    """M = 144.27 s, C / 2 M = 0.034657: sqrt(2 C M) = 53.716 s, times 1.06590, less 10 s: 47.26 s or 47 steps."""
    estimate = spot_estimate(TIMES, TERMS)
    assert estimate is not None
    assert estimate.best is not None
    assert estimate.best.save_steps == 47
    assert estimate.best.seconds < estimate.spot.seconds


def test_several_instances_are_interrupted_as_many_times_as_often_and_billed_each() -> None:
    """Two instances at half the rate: the same time and interruptions, twice the cost."""
    estimate = spot_estimate(TIMES, replace(TERMS, instances=2, interruptions_per_hour=PER_HOUR / 2))
    assert estimate is not None
    assert estimate.spot.seconds == pytest.approx(721.3475, abs=1e-4)
    assert estimate.spot.instance_seconds == pytest.approx(1442.695, abs=1e-3)
    assert (estimate.on_demand_usd, estimate.spot.usd) == (600.0, pytest.approx(432.8085, abs=1e-4))


def test_without_checkpoints_everything_is_lost() -> None:
    """A run of 300 s without interruption: (2^3 - 1) / rate = 1,009.9 s."""
    estimate = spot_estimate(replace(TIMES, checkpoint_seconds=None, checkpoints=0), TERMS)
    assert estimate is not None
    assert estimate.spot.seconds == pytest.approx(1009.8865, abs=1e-4)
    assert (estimate.spot.save_steps, estimate.best) == (None, None)
    assert spot_lines(estimate)[-1] == "Without checkpoints, an interrupted training starts again from the beginning"


def test_an_unknown_discount_leaves_the_cost_out() -> None:
    estimate = spot_estimate(TIMES, replace(TERMS, discount_percent=None, discount_source=""))
    assert estimate is not None
    assert (estimate.spot.usd, estimate.spot.billable_instance_seconds) == (None, None)
    assert spot_sentences("a", estimate)[:2] == [
        "On spot capacity, “a” is expected to take 721 s, with 5.00 interruptions at 24.9533 interruptions per hour "
        "and instance; on demand 300 s.",
        "The discount is unknown: set machine.spot_discount_percent, or run a job on spot capacity.",
    ]
    [row] = texts_by_title(spot_table([("a", estimate)]))
    assert row["billed on spot, instance s"] == "721"
    assert row["on spot, USD"] == "–"
    assert spot_table([("a", estimate)]).rows[0].cells[4].detail == "without a discount"


def test_the_table_shows_both_ways_side_by_side() -> None:
    estimate = spot_estimate(TIMES, TERMS)
    assert estimate is not None
    [row] = texts_by_title(spot_table([("a", estimate)]))
    assert row == {
        "arm": "a",
        "on demand, s": "300",
        "on demand, USD": "300.00",
        "on spot, s": "721",
        "billed on spot, instance s": "216",
        "on spot, USD": "216.40",
        "interruptions": "5.00",
        "checkpoint every, steps": "90",
        "best every, steps": "47",
        "on spot at best, s": f"{estimate.best.seconds:.0f}" if estimate.best else "",
    }
    assert spot_sentences("a", estimate)[1] == "The discount is 70.0 %, from the experiment."


def test_a_training_that_would_hardly_ever_end_says_so() -> None:
    forever = spot_estimate(replace(TIMES, total_seconds=36_000.0, checkpoints=0), replace(TERMS, price=None))
    assert forever is not None
    assert "would hardly ever end" not in spot_lines(forever)[0]
    forever = spot_estimate(replace(TIMES, total_seconds=360_000.0, checkpoints=0), replace(TERMS, price=None))
    assert forever is not None
    assert spot_lines(forever)[0].startswith("would hardly ever end at 24.9533 interruptions per hour and instance")


def test_without_interruptions_spot_takes_as_long_and_costs_less() -> None:
    estimate = spot_estimate(TIMES, replace(TERMS, interruptions_per_hour=0.0))
    assert estimate is not None
    assert (estimate.spot.seconds, estimate.spot.interruptions, estimate.best) == (300.0, 0.0, None)
    assert estimate.spot.usd == pytest.approx(90.0)


def test_times_that_leave_nothing_for_the_steps_give_no_estimate() -> None:
    assert spot_estimate(replace(TIMES, total_seconds=120.0), TERMS) is None
