"""No decision raises, whatever the trials: a sweep that dies loses all of its jobs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweeps.cost_model.costs import Measurement, cost_model
from sweeps.cost_model.ending import stop_reason
from sweeps.cost_model.pruning import should_prune
from sweeps.cost_model.trials import Record, Search
from sweeps.space.grid import Point
from sweeps.space.objective import CurvePoint, Objective, TrialOutcome
from tests.support.sweeps.trials import LOSS, search

CALIBRATED = cost_model(Measurement(batch_size=size, fits=size < 32, step_seconds=0.1 * size) for size in (8, 16, 32))

numbers = st.one_of(st.floats(allow_nan=True, allow_infinity=True, width=32), st.floats(0, 2))
seconds = st.floats(0, 1e6)


@st.composite
def trials(draw: st.DrawFn) -> Record:
    """A trial of any state, its curve of any values, at any samples that do not fall."""
    samples = sorted(draw(st.lists(st.integers(0, 2000), max_size=6)))
    curve = tuple(
        CurvePoint(samples=each, value=draw(numbers), billable_instance_seconds=draw(seconds)) for each in samples
    )
    state = draw(st.sampled_from(["running", "complete", "pruned", "failed"]))
    failure = {"pruned": ("Stopped", "why"), "failed": (draw(st.sampled_from(["OutOfMemory", "Killed"])), "why")}
    outcome = TrialOutcome(
        failure=failure.get(state),
        billable_instance_seconds=draw(seconds),
        usd=draw(st.one_of(st.none(), seconds)),
        samples=draw(st.integers(0, 2000)),
        quality=draw(numbers),
        reached=draw(st.sampled_from([None, True, False])) if state == "complete" else False,
    )
    point = Point(draw(st.sampled_from([8, 16, 32])), draw(st.sampled_from([0.5, 1.0, 2.0])))
    return Record(point=point, state=state, curve=curve, outcome=None if state == "running" else outcome)


@pytest.mark.parametrize(
    ("objective", "costs"),
    [
        (Objective(cost="billable_seconds", quality=LOSS, target=0.5), CALIBRATED),
        (Objective(cost="usd", quality=LOSS, bound=0.5), None),
        (Objective(cost="steady_samples_per_second"), CALIBRATED),
        (Objective(cost="billable_seconds", quality=LOSS, is_front=True), None),
    ],
    ids=["target", "bound", "throughput", "front"],
)
@settings(max_examples=25, deadline=None)
@given(trials=st.lists(trials(), max_size=7), running=trials())
def test_no_trials_raise_an_error(objective: Objective, costs: object, trials: list[Record], running: Record) -> None:
    spec: Search = search(objective=objective, costs=costs)
    trials = list({record.point: record for record in trials}.values())
    assert stop_reason(spec, trials) is None or stop_reason(spec, trials)
    should_prune(spec, trials, running.point, running.curve, 10.0)
    should_prune(spec, trials, running.point, (), 10.0)
