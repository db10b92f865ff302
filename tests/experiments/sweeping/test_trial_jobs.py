"""Curve and outcome of a trial's job, worked out by hand."""

from __future__ import annotations

from dataclasses import replace

from experiments.sweeping.sweep_worker import curve, outcome_of
from sweeps.trials import TrialOutcome, cost_of, values_of
from sweeps.worker import attributes, curve_text
from tests.support.sweeps.bench import SECONDS
from tracking.recorded.recorded_job import job_of
from tracking.recording.recorder import JobRun
from training.contract.events import Event

STARTED = 1_700_000_000.0


def test_a_curve_and_the_cost_of_a_trial_count_the_curve_text_both_instances() -> None:
    events = [
        Event(
            kind="metric",
            seq=samples,
            time=STARTED + seconds,
            fields={"samples": samples, "values": {"eval_loss": loss}},
        )
        for samples, seconds, loss in ((80, 10.0, 0.9), (160, 15.0, 0.7))
    ]
    two = curve(events, "eval_loss", STARTED, 2)
    assert [(point.samples, point.value, point.billable_instance_seconds) for point in two] == [
        (80, 0.9, 20.0),
        (160, 0.7, 30.0),
    ]
    assert curve_text(two) == "[[80, 0.9, 20.0], [160, 0.7, 30.0]]"
    # 100 s on two instances. The stored attribute keeps its name.
    ended = TrialOutcome(billable_instance_seconds=200.0, samples=160, quality=0.7)
    assert cost_of(replace(SECONDS, target=0.7), ended) == 200.0
    assert attributes(ended)["billable_seconds"] == 200.0


def test_a_cost_that_has_not_arrived_is_not_zero() -> None:
    """With a cost of 0, the trial would be the best one."""
    objective = replace(SECONDS, bound=0.7)
    run = JobRun(id="run", has_ended=True, metrics={"eval_loss": 0.6})
    assert values_of(objective, outcome_of(run, objective)) is None


def test_the_meter_of_a_script_reports_samples_apart_from_evaluations() -> None:
    fields = [
        {"samples": 80, "values": {}},
        {"values": {"eval_loss": 0.9}},
        {"samples": 95, "values": {"eval_loss": 0.8}},
    ]
    events = [Event("metric", at, STARTED + 10 * at, each) for at, each in enumerate(fields)]
    assert [(each.samples, each.value) for each in curve(events, "eval_loss", STARTED, 1)] == [(80, 0.9), (95, 0.8)]


def test_a_script_that_was_stopped_at_its_target_costs_what_it_took_to_get_there() -> None:
    """It took 5 of 25 s on each of two instances to stop it."""
    costs = {"cost/billable_seconds": 25.0, "cost/billable_instance_seconds": 50.0, "cost/usd": 5.0}
    to_target = {"target/reached": 1.0, "target/billable_seconds": 20.0, "target/usd": 4.0}
    objective = replace(SECONDS, target=0.7)
    outcome = outcome_of(JobRun(id="run", has_ended=True, metrics={**costs, **to_target}), objective)
    assert values_of(objective, outcome) == [40.0]
    assert values_of(replace(objective, cost="usd"), outcome) == [4.0]
    table = {"run_id": "r", **{name.replace("/", "_"): value for name, value in {**costs, **to_target}.items()}}
    job = job_of(table)
    assert [job.compared(f"cost_{name}") for name in ("billable_instance_seconds", "usd")] == [40.0, 4.0]
    assert job.number("cost_usd") == 5.0
