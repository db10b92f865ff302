"""Estimates from recorded probes, and discounts of earlier spot jobs."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from reports.comparison.arms import Job, job_of
from reports.comparison.report import Source
from reports.formats.html import html_page
from reports.probe.projections import probes_of
from reports.probe.report import probe_report, sentences
from reports.probe.spot import Discount, discounts_of, estimate_of_probe, running_seconds

PER_HOUR = 36 * math.log(2)


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
    """Start-up: 30 + 50 + 15 + 10 s less 5 s, in which the warm-up trains 20 samples: 100 s. See test_estimate."""
    discounts = discounts_of([spot_job(60.0), spot_job(70.0), spot_job(72.0), spot_job(10.0, "ml.p3.2xlarge")])
    assert discounts["ml.g5.xlarge"] == Discount(70.0, 3)
    estimate = estimate_of_probe(job_of(probe()), discounts)
    assert estimate is not None
    assert estimate.spot.seconds == pytest.approx(721.3475, abs=1e-4)
    assert estimate.spot.usd == pytest.approx(216.4043, abs=1e-4)
    assert estimate.terms.discount_source == "the median of 3 earlier spot jobs"


def test_the_discount_of_the_experiment_counts_first() -> None:
    estimate = estimate_of_probe(job_of(probe(spot_discount_percent="50")), {"ml.g5.xlarge": Discount(70.0, 3)})
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
    probes = probes_of(table, "g", {}, {}, {"ml.g5.xlarge": Discount(70.0, 3)})
    [sentence] = [text for text in sentences(probes) if text.startswith("On spot capacity")]
    assert sentence.endswith("; on demand 300 s and 300.00 USD.")
    source = Source(title="t", tracking_uri="uri", environment={}, table=table)
    page = html_page(probe_report(probes, (), source))
    assert "On spot capacity" in page
    assert "216.40" in page
    local = probes_of(pd.DataFrame([{**probe(), "interruptions_per_hour": None}]), "g", {})
    assert not [text for text in sentences(local) if "spot" in text]
    assert "spot" not in html_page(probe_report(local, (), source))
