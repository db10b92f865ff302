"""The exception of which a job died, from its own event or from its log."""

from __future__ import annotations

import pytest

from tracking.recording.recorder import death_of, death_tags, recorded_death
from training.contract.events import Event

TRACEBACK = """\
Traceback (most recent call last):
  File "/opt/ml/code/train.py", line 9, in main
    start()
RuntimeError: no such device"""


def metric(step: int) -> Event:
    return Event(kind="metric", seq=step, time=1.0, fields={"step": step, "values": {"loss": 1.0}})


def test_the_log_of_a_script_ends_with_its_exception() -> None:
    log = ["started", *TRACEBACK.splitlines()]
    early, late = death_of(("Error", ""), [metric(0)], log), death_of(("Error", ""), [metric(1)], log)
    assert early
    assert late
    assert (early.exception, early.moment, late.moment) == ("RuntimeError: no such device", "start", "later")
    assert recorded_death(death_tags(early)) == early


def test_our_own_job_reports_its_traceback() -> None:
    failure = Event(kind="failure", seq=1, time=1.0, fields={"message": "no such device", "traceback": TRACEBACK})
    death = death_of(("OutOfMemory", ""), [failure], ["another line"])
    assert death
    assert death.exception == "RuntimeError: no such device"


@pytest.mark.parametrize("failure_class", ["Stopped", "Killed", "TimeLimit", "Capacity", "DiskFull"])
def test_a_job_that_others_ended_died_of_no_exception(failure_class: str) -> None:
    assert death_of((failure_class, ""), [], TRACEBACK.splitlines()) is None


def test_a_run_without_the_tags_has_no_exception() -> None:
    assert recorded_death({}) is None
    assert recorded_death({"platform.exception": "X", "platform.exception_moment": "unknown"}) is None
    assert death_tags(None) == {}
