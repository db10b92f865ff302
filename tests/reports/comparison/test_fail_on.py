"""Test the results for which a script may want a command to fail."""

from __future__ import annotations

from typing import Any

import pytest

from reports.comparison.comparison import compare
from reports.comparison.report import fail_sentences, results_by_arm
from tracking.queries import job_tables


def results(tracked: Any, *repeats: tuple[str, float, float], failed: str = "") -> dict[str, tuple[str, ...]]:
    """Return the results of a selection of jobs: three repeats of each arm, its seconds and its accuracy."""
    for label, seconds, accuracy in repeats:
        for repeat in range(3):
            metrics = {"eval_accuracy": accuracy + 0.001 * repeat}
            tracked.trained(label, repeat, seconds + repeat, metrics=metrics, baseline=label == "none")
    if failed:
        tracked.job(failed, 3, status="FAILED", metrics={"cost/billable_instance_seconds": 7.0})
    table = job_tables.jobs(tracked.client, tracked.group)
    return dict(results_by_arm(compare(table, tracked.group, is_selection=True)))


BASELINE = ("none", 100.5, 0.9)


def test_a_cheaper_arm_of_equal_quality_has_no_unwanted_result(tracked: Any) -> None:
    assert results(tracked, BASELINE, ("inductor", 80.5, 0.9)) == {}


@pytest.mark.parametrize(
    ("arm", "result"),
    [
        (("inductor", 130.5, 0.9), "dearer"),
        (("inductor", 80.5, 0.8), "worse"),
    ],
)
def test_a_dearer_or_worse_arm_is_named(tracked: Any, arm: tuple[str, float, float], result: str) -> None:
    assert results(tracked, BASELINE, arm) == {result: ("inductor",)}


def test_an_inconclusive_arm_and_a_failed_job_are_named(tracked: Any) -> None:
    unwanted = results(tracked, BASELINE, ("inductor", 80.5, float("nan")), failed="none")
    assert unwanted == {"inconclusive": ("inductor",), "failed": ("none",)}


def test_only_requested_results_have_a_sentence() -> None:
    arms = {"dearer": ("a", "b"), "failed": ("a",)}
    assert list(fail_sentences(arms, frozenset({"dearer", "worse"}))) == ["--fail-on dearer: “a”, “b”."]
    assert list(fail_sentences(arms, frozenset({"failed"}))) == ["--fail-on failed: a job failed of “a”."]
    assert list(fail_sentences(arms, frozenset())) == []
