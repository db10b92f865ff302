"""Billing of a sweep's jobs on two instances, worked out by hand."""

from __future__ import annotations

import math

import pytest

from sweeps.space.objective import Objective, Quality, TrialOutcome, cost_of, values_of
from sweeps.workers.outcome import attributes, seconds_of
from sweeps.workers.trial_jobs import curve, outcome_of
from tracking.recording.job_run import JobRun
from tracking.recording.recorder import OpenRun
from training.contract.events import Event
from training.contract.price import share_for_auto

STARTED = 1_700_000_000.0
QUALITY = Quality(metric="eval_loss", higher_is_better=False)


def evaluation(samples: int, seconds: float, loss: float) -> Event:
    fields = {"step": samples // 8, "samples": samples, "values": {"eval_loss": loss}}
    return Event(kind="metric", seq=samples, time=STARTED + seconds, fields=fields)


def test_a_point_of_a_curve_counts_the_seconds_of_both_instances() -> None:
    events = [evaluation(80, 10.0, 0.9), evaluation(160, 15.0, 0.7)]
    two = curve(events, "eval_loss", STARTED, 2)
    assert [(point.samples, point.value, point.billable_instance_seconds) for point in two] == [
        (80, 0.9, 20.0),
        (160, 0.7, 30.0),
    ]
    assert seconds_of(two) == '{"80": 20.0, "160": 30.0}'
    assert [point.billable_instance_seconds for point in curve(events, "eval_loss", STARTED, 1)] == [10.0, 15.0]


def test_the_cost_of_a_trial_is_in_instance_seconds() -> None:
    # 100 s on two instances. The stored attribute keeps its name.
    ended = TrialOutcome(billable_instance_seconds=200.0, samples=160, quality=0.7)
    assert cost_of(Objective(cost="billable_seconds", quality=QUALITY, target=0.7), ended) == 200.0
    assert attributes(ended)["billable_seconds"] == 200.0


def test_the_choice_of_auto_is_paid_but_not_compared() -> None:
    # 4 of 100 billed seconds on each of two instances.
    ended = TrialOutcome(billable_instance_seconds=200.0, usd=0.5, share_for_auto=share_for_auto(4.0, 100.0))
    assert cost_of(Objective(cost="billable_seconds"), ended) == pytest.approx(192.0)
    assert cost_of(Objective(cost="usd"), ended) == pytest.approx(0.48)
    stored = attributes(ended)
    assert (stored["billable_seconds"], stored["share_for_auto"]) == (200.0, pytest.approx(0.04))
    assert "share_for_auto" not in attributes(TrialOutcome(billable_instance_seconds=200.0))


@pytest.mark.parametrize(("trial", "billed"), [(0.0, 100.0), (math.nan, 100.0), (4.0, math.nan), (4.0, 3.0)])
def test_without_a_known_trial_the_whole_cost_is_compared(trial: float, billed: float) -> None:
    assert share_for_auto(trial, billed) == 0


def test_a_cost_that_has_not_arrived_is_not_zero() -> None:
    """With a cost of 0, the trial would be the best one."""
    objective = Objective(cost="billable_seconds", quality=QUALITY, bound=0.7)
    run = JobRun(opened=OpenRun("run"), has_ended=True, failure=None, death=None, metrics={"eval_loss": 0.6})
    assert values_of(objective, outcome_of(run, objective)) is None
