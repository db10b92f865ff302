"""Test mean curves over repeats against values worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from reports.charts.report_charts import mean_curve
from tracking.recorded.arms import Arm
from tracking.recorded.recorded_job import Job


def job(run_id: str) -> Job:
    return Job(
        run_id=run_id, experiment_id="1", name=run_id, status="FINISHED", arm="a", is_baseline=True, repeat="0",
        cache_state="off",
    )  # fmt: skip


def curve(steps: list[int], values: list[float]) -> pd.DataFrame:
    samples = [10.0 * step for step in steps]
    seconds = [2.0 * step for step in steps]
    return pd.DataFrame(
        {"step": steps, "samples": samples, "billable_seconds": seconds, "key": "loss", "value": values}
    )


def mean(*curves: pd.DataFrame) -> pd.DataFrame:
    arm = Arm("a", tuple(job(str(number)) for number in range(len(curves))))
    return mean_curve(arm, {str(number): table for number, table in enumerate(curves)}, "samples")


@pytest.mark.parametrize(
    ("others", "steps", "values"),
    [
        (curve([1, 2, 3], [5.0, 4.0, 3.0]), [1, 2, 3], [4.0, 3.0, 2.0]),
        (curve([1, 3], [5.0, 3.0]), [1, 2, 3], [4.0, 3.0, 2.0]),
        (curve([1, 2], [5.0, 4.0]), [1, 2, 3], [4.0, 3.0, 1.0]),
        (curve([1, 2, 3], [5.0, math.nan, 3.0]), [1, 2, 3], [4.0, 2.0, 2.0]),
        (curve([1, 2, 3], [math.inf, 4.0, 3.0]), [2, 3], [3.0, 2.0]),
        (curve([], []), [1, 2, 3], [3.0, 2.0, 1.0]),
    ],
    ids=["the same steps", "a step between", "an earlier end", "no number", "infinity", "no points"],
)
def test_the_mean_over_two_repeats(others: Any, steps: list[int], values: list[float]) -> None:
    mean_table = mean(curve([1, 2, 3], [3.0, 2.0, 1.0]), others)
    assert list(mean_table["step"]) == steps
    assert list(mean_table["value"]) == values
    assert list(mean_table["samples"]) == [10.0 * step for step in steps]


def test_no_curve_has_no_mean() -> None:
    assert len(mean()) == 0
    assert len(mean(curve([], []))) == 0
