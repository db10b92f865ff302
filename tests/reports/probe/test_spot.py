"""Expected time and cost on spot capacity, worked out by hand, their sentences, and estimates from recorded probes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from reports.comparison.report import Source
from reports.formats.html import html_page
from reports.probe.report import probe_report, probes_of, sentences
from reports.probe.spot import spot_lines, spot_sentences, spot_table
from tests.support.reports.reading import texts_by_title
from tracking.recorded.recorded_job import (
    Job,
    Terms,
    Times,
    discounts_of,
    estimate_of_probe,
    job_of,
    running_seconds,
    spot_estimate,
)
from training.contract.price import Price

PER_HOUR = 36 * math.log(2)
"""Rate at which half of all runs of 100 s are interrupted."""
DISCOUNT = (70.0, "the median of 3 earlier spot jobs")
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
    # M = 144.27 s, C / 2 M = 0.034657: sqrt(2 C M) = 53.716 s, times 1.06590, less 10 s: 47.26 s or 47 steps.
    assert estimate.best is not None
    assert estimate.best.save_steps == 47
    assert estimate.best.seconds < estimate.spot.seconds
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
        "on spot at best, s": f"{estimate.best.seconds:.0f}",
    }
    assert spot_sentences("a", estimate)[1] == "The discount is 70.0 %, from the experiment."


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


def test_a_training_that_would_hardly_ever_end_says_so() -> None:
    forever = spot_estimate(replace(TIMES, total_seconds=360_000.0, checkpoints=0), replace(TERMS, price=None))
    assert forever is not None
    assert spot_lines(forever)[0].startswith("would hardly ever end at 24.9533 interruptions per hour and instance")
    assert spot_estimate(replace(TIMES, total_seconds=120.0), TERMS) is None


def test_without_interruptions_spot_takes_as_long_and_costs_less() -> None:
    estimate = spot_estimate(TIMES, replace(TERMS, interruptions_per_hour=0.0))
    assert estimate is not None
    assert (estimate.spot.seconds, estimate.spot.interruptions, estimate.best) == (300.0, 0.0, None)
    assert estimate.spot.usd == pytest.approx(90.0)


def probe(**columns: Any) -> dict[str, Any]:
    """A probe whose training takes 300 s: start-up 100 s, 180 steps of a second, two checkpoints of 10 s."""
    row = {
        "run_id": "r",
        "status": "FINISHED",
        "arm": "a",
        "instance_type": "ml.g5.xlarge",
        "hp_probe_precision": "0.05",
        "interruptions_per_hour": str(PER_HOUR),
        "price_usd_per_hour": "3600",
        "projected_steps": 180.0,
        "projected_checkpoints": 2.0,
        "time_download_seconds": 30.0,
        "time_load_seconds": 50.0,
        "time_compile_seconds": 15.0,
        "time_warmup_seconds": 10.0,
        "time_train_steady_seconds": 20.0,
        "throughput_steady_samples_per_second": 4.0,
        "samples": 100.0,
        "time_seconds_per_checkpoint": 10.0,
        "cost_billable_seconds": 120.0,
        "cost_billable_instance_seconds": 120.0,
    }
    for end in ("", "_low", "_high"):
        row |= {f"projected_billable_seconds{end}": 300.0, f"projected_billable_instance_seconds{end}": 300.0}
        row |= {f"projected_usd{end}": 300.0}
    return {**row, **columns}


def spot_job(percent: float, instance_type: str = "ml.g5.xlarge") -> Job:
    return job_of({"run_id": "s", "instance_type": instance_type, "cost_spot_savings_percent": percent})


def test_a_probe_is_priced_by_its_rate_and_the_discount_of_earlier_jobs() -> None:
    """Start-up: 30 + 50 + 15 + 10 s less 5 s, in which the warm-up trains 20 samples: 100 s. See the first test."""
    discounts = discounts_of([spot_job(60.0), spot_job(70.0), spot_job(72.0), spot_job(10.0, "ml.p3.2xlarge")])
    assert discounts["ml.g5.xlarge"] == DISCOUNT
    estimate = estimate_of_probe(job_of(probe()), discounts)
    assert estimate is not None
    assert estimate.spot.seconds == pytest.approx(721.3475, abs=1e-4)
    assert estimate.spot.usd == pytest.approx(216.4043, abs=1e-4)
    assert estimate.terms.discount_source == "the median of 3 earlier spot jobs"


def test_the_discount_of_the_experiment_counts_first() -> None:
    estimate = estimate_of_probe(job_of(probe(spot_discount_percent="50")), {"ml.g5.xlarge": DISCOUNT})
    assert estimate is not None
    assert (estimate.terms.discount_percent, estimate.terms.discount_source) == (50.0, "machine.spot_discount_percent")


def test_a_probe_that_ran_on_spot_is_compared_with_its_time_on_demand() -> None:
    """SageMaker's billable seconds include the discount: 90 s at 70 % are 300 s."""
    row = probe(cost_spot_savings_percent=70.0, projected_billable_seconds=90.0)
    row["projected_billable_instance_seconds"] = 90.0
    assert running_seconds(job_of(row), "projected_billable_seconds") == pytest.approx(300.0)
    estimate = estimate_of_probe(job_of(row), {})
    assert estimate is not None
    assert estimate.on_demand_seconds == pytest.approx(300.0)


@pytest.mark.parametrize("missing", ["interruptions_per_hour", "time_load_seconds", "projected_steps"])
def test_a_probe_without_the_figures_has_no_estimate(missing: str) -> None:
    row = probe()
    del row[missing]
    assert estimate_of_probe(job_of(row), {}) is None


def test_the_report_of_a_probe_has_both_ways() -> None:
    table = pd.DataFrame([probe()])
    probes = probes_of(table, "g", {}, {}, {"ml.g5.xlarge": DISCOUNT})
    [sentence] = [text for text in sentences(probes) if text.startswith("On spot capacity")]
    assert sentence.endswith("; on demand 300 s and 300.00 USD.")
    source = Source(title="t", tracking_uri="uri", environment={}, table=table)
    page = html_page(probe_report(probes, (), source))
    assert "On spot capacity" in page
    assert "216.40" in page
    local = probes_of(pd.DataFrame([{**probe(), "interruptions_per_hour": None}]), "g", {})
    assert not [text for text in sentences(local) if "spot" in text]
    assert "spot" not in html_page(probe_report(local, (), source))
