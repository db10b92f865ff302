"""Test which charts a comparison and a group of probes have, and their numbers, on hand-made jobs."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd
import pytest

from reports.charts.report_charts import comparison_charts
from reports.comparison.comparison import Comparison, compare
from reports.model.report import Chart
from tests.support.reports.verdicts import job_row

ALWAYS = ["interval", "billable"]


def rows(**columns: Any) -> list[dict[str, Any]]:
    """Return two repeats of two arms; the second arm was billed 20 % fewer seconds."""
    arms = {"none": (100.0, 102.0), "inductor": (80.0, 81.6)}
    return [
        job_row(arm, seconds, at, run_id=f"{arm} {at}", **columns)
        for arm, billed in arms.items()
        for at, seconds in enumerate(billed)
    ]


def compared(**columns: Any) -> Comparison:
    return compare(pd.DataFrame(rows(**columns)), "g")


def curve(first: float, last: float) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "step": [1, 2],
            "samples": [1000.0, 2000.0],
            "billable_seconds": [50.0, 100.0],
            "key": "loss",
            "value": [first, last],
        }
    )


def test_an_arm_without_an_interval_that_says_something_has_only_a_point() -> None:
    few = [job_row("batch", seconds, at) for at, seconds in enumerate((30.0, 300.0))]
    text = description(comparison_charts(compare(pd.DataFrame([*rows(), *few]), "g"), {}), "interval")
    assert re.search(r"inductor: −20 %, −2\d % to −1\d %", text)
    assert "batch: −6.1 %, too few repeats" in text


def names(charts: list[Chart]) -> list[str]:
    return [chart.name for chart in charts]


def description(charts: list[Chart], name: str) -> str:
    """Return the text that describes a chart's numbers."""
    svg = next(chart.svg for chart in charts if chart.name == name)
    match = re.search(rf'<desc id="{name}-description">(.*?)</desc>', svg)
    assert match is not None
    return match[1]


@pytest.mark.parametrize(
    ("columns", "more"),
    [
        ({}, []),
        ({"cost_usd": 0.5}, ["cost"]),
        ({"train_runtime": 60.0}, ["training"]),
        ({"throughput_steady_samples_per_second": 50.0}, ["throughput"]),
        ({"time_train_steady_seconds": 60.0}, ["phases"]),
    ],
)
def test_a_comparison_has_a_chart_for_each_recorded_quantity(columns: dict[str, float], more: list[str]) -> None:
    assert names(comparison_charts(compared(**columns), {})) == [*ALWAYS, *more]


def test_curves_add_the_loss_by_samples_and_by_seconds() -> None:
    """The mean of 2.0 and 2.2 is 2.1, and that of 1.0 and 1.2 is 1.1."""
    curves = {"none 0": curve(2.0, 1.0), "none 1": curve(2.2, 1.2)}
    charts = comparison_charts(compared(), curves)
    assert names(charts) == [*ALWAYS, "loss_by_samples", "loss_by_billable_seconds"]
    by_samples, by_seconds = (description(charts, f"loss_by_{x}") for x in ("samples", "billable_seconds"))
    assert by_samples == "none: from 2.10 at 1,000 samples seen to 1.10 at 2,000."
    assert by_seconds == "none: from 2.10 at 50.0 billable seconds to 1.10 at 100."
