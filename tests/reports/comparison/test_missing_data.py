"""Test that costs which do not count are named as what they are."""

from __future__ import annotations

from typing import Any

from reports.comparison.comparison import compare
from reports.comparison.equal_work import BILLABLE
from reports.comparison.messages import cost_sentence, missing_data
from reports.comparison.tables import columns
from tracking.queries import job_tables


def test_negative_zero_and_missing_costs_are_named(tracked: Any) -> None:
    """Only 80 s and 82 s count for the arm: their geometric mean is 81.0 s."""
    for repeat, (none, inductor) in enumerate([(100.5, 80.0), (101.5, 82.0), (99.5, -5.0), (100.0, 1.0), (100.2, 1.0)]):
        unbilled = {3: {"cost/billable_instance_seconds": 0.0}, 4: {"cost/billable_instance_seconds": float("nan")}}
        tracked.trained("none", repeat, none, baseline=True, losses=[])
        tracked.trained("inductor", repeat, inductor, metrics=unbilled.get(repeat, {}), losses=[])
    tracked.job("inductor", 5, status="FAILED", metrics={"cost/billable_instance_seconds": 0.0})
    comparison = compare(job_tables.jobs(tracked.client, tracked.group), tracked.group)
    assert missing_data(comparison) == [
        "Missing: billable seconds of “inductor, repeat 5”: not recorded or not finite.",
        "Not counted: billable instance seconds -5 of “inductor, repeat 3”, 0 of “inductor, repeat 4”: the cost of a "
        "job must be above 0.",
    ]
    # 501.7 s of the baseline and 162 s: the service may bill nothing for a job that failed.
    assert cost_sentence(comparison) == (
        "11 jobs took 664 billable instance seconds in all, 0.00 of them in 1 failed job (1 without a billing record, "
        "1 with a negative cost, which does not count)."
    )
    [shown] = [column for column in columns(comparison) if column.label == "billable"]
    assert shown.value(comparison.arms[1]) == "81.0"
    assert comparison.arms[1].positive(BILLABLE) == [80.0, 82.0]


def test_nothing_is_missing_from_complete_jobs(tracked: Any) -> None:
    tracked.trained("none", 0, 100.0, baseline=True)
    assert missing_data(compare(job_tables.jobs(tracked.client, tracked.group), tracked.group)) == []
