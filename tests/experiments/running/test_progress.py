"""Test the progress of a group: its line by hand, and what a terminal and a log get from it, with a clock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from experiments.running.scheduler import GroupProgress, amount_left, state_text
from tests.support.tracking.planned_jobs import planned
from tracking.groups.planned_job import PlannedJob
from tracking.recording.recorder import Outcome
from training.contract.failures import Failure
from training.contract.price import InstanceSeconds
from training.services.budget import Amount, Budget, Spending


def amount(seconds: float, usd: float | None = None) -> Amount:
    return Amount(seconds=InstanceSeconds(seconds), usd=usd)


KNOWN: dict[str, Any] = {"ended": 3, "most": 18, "is_most_certain": True, "running": 1, "waits": {}}


def outcome(job: PlannedJob, seconds: float, failure: Failure | None = None) -> Outcome:
    return Outcome(planned=job, run_id="r", failure=failure, cost=amount(seconds))


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "3 of 18 jobs done, 1 running; 92 s billed, about 8 min left"),
        (
            {"spent": amount(92, 0.421), "left": amount(480, 2.1)},
            "3 of 18 jobs done, 1 running; 92 s billed, about 8 min left; 0.42 USD so far, about 2.10 USD left",
        ),
        (
            {"waits": {"a": ("ml.g5.xlarge", 35.0), "b": ("ml.g5.xlarge", 150.0)}, "running": 0},
            "3 of 18 jobs done; 92 s billed, about 8 min left; 2 jobs have waited up to 2 min for ml.g5.xlarge",
        ),
        (
            {"spending": Spending(budget=Budget(max_usd=5), spent=amount(92, 1.5), committed=amount(92, 3))},
            "3 of 18 jobs done, 1 running; 92 s billed, about 8 min left; 3.50 USD of the budget left",
        ),
    ],
)
def test_the_line_states_jobs_time_money_and_waits(fields: dict[str, Any], text: str) -> None:
    assert state_text(**{**KNOWN, "spent": amount(92), "left": amount(480), **fields}) == text


def test_what_is_left_follows_from_the_jobs_that_have_ended(tmp_path: Path) -> None:
    jobs = [planned(tmp_path, f"job-{n}", repeat=n) for n in range(4)]
    done = [outcome(jobs[0], 20.0), outcome(jobs[1], 40.0)]
    running = {"job-2": amount(10.0)}
    # Jobs 2 and 3 cost 30 s each, of which 10 s are over.
    assert amount_left(jobs, done, running, lambda _: 99.0) == amount(50.0)
    # Earlier runs count only until a job of the arm has ended. A failed job says nothing.
    failed = [outcome(jobs[0], 1.0, Failure("Error", "died"))]
    assert amount_left(jobs, failed, running, lambda _: 99.0) == amount(2 * 99.0 + 89.0)
    assert amount_left(jobs, [], {}, lambda _: None) is None
    # A job that takes longer than expected is about to end.
    assert amount_left(jobs[:3], done, {"job-2": amount(50.0)}, lambda _: None) == amount(0.0)


def test_a_terminal_gets_one_line_a_second(tmp_path: Path) -> None:
    now, lines, shown = [0.0], list[str](), list[str]()
    jobs = [planned(tmp_path, f"job-{n}", repeat=n) for n in range(2)]
    progress = GroupProgress(lines.append, shown.append, clock=lambda: now[0], jobs=jobs)
    for now[0] in (0.0, 0.5, 1.0):
        progress.show([], {"job-0": outcome(jobs[0], 20.0)}, {})
    progress.close()
    assert shown == ["1 of 2 jobs done; 20 s billed, about 20 s left"] * 2 + [""]
    assert lines == []


def test_a_log_gets_a_line_a_minute(tmp_path: Path) -> None:
    now, lines = [0.0], list[str]()
    jobs = [planned(tmp_path, "job-0"), planned(tmp_path, "job-1", repeat=1)]
    progress = GroupProgress(lines.append, clock=lambda: now[0], jobs=jobs)
    for now[0], free in ((0.0, 0), (5.0, 0), (30.0, 1), (60.0, 1)):
        progress.show([], {}, {"none, repeat 2": (f"2 cores ({free} of 2 free)", now[0])})
    assert lines == [
        "  0 of 2 jobs done; 0 s billed; none, repeat 2 has waited 60 s for 2 cores (1 of 2 free)",
    ]
