"""Test a sweep's trials on hand-made tables with their outcomes and costs."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from reports.sweep.messages import headline, sentences
from tests.support.reports.sweep_tables import make_sweep, row, trial


def test_ranks_and_outcomes() -> None:
    ended = (
        trial("none", 8, 50.0, end="not reached", target_reached=0.0, trial="7"),
        trial("none", 16, 10.0, end="pruned: its bill is above the cheapest", status="KILLED", trial="1"),
        trial("none", 64, 5.0, end="failed: OutOfMemory", status="FAILED", trial="2"),
        trial("none", 32, 90.0, trial="3"),
        trial("none", 32, 80.0, 2.0, trial="4"),
        trial("none", 32, math.nan, 4.0, end=None, status="RUNNING", trial="5"),
    )
    sweep = make_sweep(*ended)
    assert [(t.number, t.kind) for t in sweep.trials] == [
        (4, "completed"),
        (3, "completed"),
        (7, "not reached"),
        (1, "pruned"),
        (2, "failed"),
        (5, "running"),
    ]
    assert {s.what: (s.jobs, s.seconds) for s in sweep.cost_by_outcome()} == {
        "completed": (2, 170.0),
        "not reached": (1, 50.0),
        "pruned": (1, 10.0),
        "failed": (1, 5.0),
        "running": (1, 0.0),
    }


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"status": "FINISHED", "target_reached": 0.0}, ("not reached", "not reached")),
        ({"status": "FAILED", "failure_class": "Killed"}, ("failed", "failed: Killed")),
        ({"status": "KILLED"}, ("failed", "failed: killed")),
        ({"status": "RUNNING"}, ("running", "running")),
    ],
)
def test_a_trial_without_an_end_tag_has_its_runs_outcome(columns: dict[str, Any], expected: tuple[str, str]) -> None:
    first_trial = make_sweep(trial("none", 8, 10.0, end=None) | columns).trials[0]
    assert (first_trial.kind, first_trial.end) == expected


def test_a_calibration_is_read_by_its_batch_sizes() -> None:
    points = pd.DataFrame(
        [(8, "calibration/fits", 1.0), (8, "calibration/step_seconds", 0.1), (16, "calibration/fits", 0.0)],
        columns=["step", "key", "value"],
    )
    sweep = make_sweep(row("calibration", "none", math.nan, 40.0), calibrations={"r0": points})
    assert (sweep.calibrations[0].largest, sweep.calibrations[0].too_large) == (8.0, (16.0,))
    assert headline(sweep) == "No trial yet: none fits batches up to 8."


def test_each_failure_class_is_reported_once() -> None:
    columns = {"status": "FAILED", "end": "failed: BadData"}
    rows = [trial("none", size, 1.0, **columns, failure_message=f"Traceback\nrow {size} is empty.") for size in (8, 16)]
    rows.append(trial("none", 32, 1.0, status="FAILED", end="failed: Capacity"))
    messages = [sentence for sentence in sentences(make_sweep(*rows)) if sentence.startswith("Failed")]
    assert sorted(messages) == ["Failed with BadData: row 8 is empty.", "Failed with Capacity."]
