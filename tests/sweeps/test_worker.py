"""One worker with simulated jobs on SQLite: each rule worked out by hand."""

from __future__ import annotations

import math
import os
import re
import signal
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from optuna.samplers import RandomSampler
from optuna.trial import TrialState

from sweeps.costs import Measurement, cost_model
from sweeps.optuna_study import DUPLICATE, Limits, NoTrial, Part
from sweeps.search_space import Point
from sweeps.trials import Objective
from tests.support.services.following import until
from tests.support.sweeps.bench import LOSS, SECONDS, Bench, short
from tests.support.sweeps.simulated_jobs import Behaviour, SimulatedRunner, SimulatedRunning
from training.contract.errors import BudgetFull, QuotaError


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def ends(part: Part) -> Counter[str]:
    return Counter(str(trial.user_attrs.get("end")) for trial in part.trials)


def test_every_point_is_tried_once_whatever_the_sampler(bench: Bench) -> None:
    part = bench.part(sampler=RandomSampler(seed=1))
    assert bench.run(short, part) == NoTrial(
        reason="none: no point is left", reasons={"none": "no point is left"}, is_over=True
    )
    assert set(bench.service.creations.values()) == {1}
    complete = [trial for trial in part.trials if trial.state == TrialState.COMPLETE]
    assert sorted((t.user_attrs["batch_size"], t.user_attrs["multiplier"]) for t in complete) == [
        (size, factor) for size in (8, 16, 32) for factor in (0.5, 1.0)
    ]
    assert set(ends(part)) == {"completed", DUPLICATE}
    assert bench.service.most_at_once() <= 3


def test_a_trial_holds_its_jobs_outcome(bench: Bench) -> None:
    part = bench.part()
    assert bench.run(short, part, limits=Limits(trials=1)).reason == "none: 1 trial was run"
    [trial] = part.trials
    size, factor = trial.user_attrs["batch_size"], trial.user_attrs["multiplier"]
    seconds = 0.02 + size / 1000
    assert trial.state == TrialState.COMPLETE
    assert trial.value == pytest.approx(seconds, rel=1e-3)
    assert trial.intermediate_values == pytest.approx({50: seconds / 2, 100: seconds}, rel=1e-3)
    assert part.study.metric_names == ["billable_instance_seconds"]
    assert trial.user_attrs == {
        "batch_size": size,
        "multiplier": factor,
        "job": f"job-none-{size}-{factor:g}",
        "claim": 0,
        "curve": f"[[50, 2.0, {round(seconds / 2, 3)}], [100, 1.0, {round(seconds, 3)}]]",
        "billable_seconds": pytest.approx(seconds, rel=1e-3),
        "usd": pytest.approx(0.01 * seconds, rel=1e-3),
        "samples": 100,
        "quality": 1.0,
        "steady_samples_per_second": 100.0,
        "run_id": f"run-job-none-{size}-{factor:g}",
        "end": "completed",
    }


def test_the_study_with_the_fewest_trials_comes_first(bench: Bench) -> None:
    limits = Limits(trials=2, parallel=1, max_parallel=1)
    done = bench.run(short, bench.part(), bench.part(compiler="inductor"), limits=limits)
    assert done.reason == "none: 2 trials were run; inductor: 2 trials were run"
    order = [line.split()[3].rstrip(":") for line in bench.messages]
    assert order == ["none", "inductor", "none", "inductor"]


def test_nothing_starts_without_room_in_the_budget(bench: Bench) -> None:
    part = bench.part()
    failing = Behaviour(seconds=0.1, failure=("BadData", "line 3"))

    def no_room(_: Sequence[str]) -> str | None:
        return "nothing is left" if len(bench.service.names) >= 2 else None

    done = bench.run(lambda *_: failing, part, limits=Limits(no_room=no_room))
    assert ends(part) == {"failed: BadData": 2}
    assert done == NoTrial(
        reason="nothing is left", reasons={"none": "nothing is left"}, is_over=True, is_over_budget=True
    )


def test_a_search_that_is_complete_continues_with_more_trials_and_does_not_blame_the_budget(bench: Bench) -> None:
    part = bench.part()
    for trials, no_room in ((2, None), (3, None), (3, "nothing is left")):
        done = bench.run(short, part, limits=Limits(trials=trials, no_room=lambda _, why=no_room: why))
        assert (done.reason, done.is_over_budget) == (f"none: {trials} trials were run", False)
        assert ends(part) == {"completed": trials}


def test_a_trial_waits_while_the_budget_is_reserved(bench: Bench) -> None:
    """The budget has room for one job at a time. The second trial is claimed and starts when the first has ended."""

    class RoomForOne(SimulatedRunner):
        def start(self, compiler: str, point: Point, trial_number: int) -> SimulatedRunning:
            if running := self.service.running():
                raise BudgetFull("one job at a time", frozenset(running), is_final=False)
            return super().start(compiler, point, trial_number)

    part = bench.part()
    limits = Limits(trials=2, parallel=2, max_parallel=2)
    runner = RoomForOne(bench.service, lambda *_: Behaviour(seconds=2.0, curve=((0.1, 100, 1.0),)))
    bench.run_with(runner, part, limits=limits)
    assert ends(part) == {"completed": 2}
    assert bench.service.most_at_once() == 1
    assert any("waits. one job at a time" in line for line in bench.messages)


def test_a_job_that_ran_out_of_memory_bounds_the_batch(bench: Bench) -> None:
    def behaviour(_: str, point: Point) -> Behaviour:
        return Behaviour(seconds=0.02, failure=("OutOfMemory", "") if point.batch_size >= 16 else None)

    part = bench.part()
    assert bench.run(behaviour, part).reason == "none: no point is left"
    assert ends(part)["completed"] == 2
    assert all(trial.user_attrs["batch_size"] == 8 for trial in part.trials if trial.state == TrialState.COMPLETE)


def test_failures_end_a_study(bench: Bench) -> None:
    part = bench.part()
    behaviour = Behaviour(seconds=0.02, failure=("BadData", "line 3"))
    done = bench.run(lambda *_: behaviour, part, limits=Limits())
    assert done.reason == "none: 5 jobs failed and no other job ended; the last one failed: BadData"
    assert any("failed: BadData (line 3)" in line for line in bench.messages)
    missing = "ModuleNotFoundError: No module named 'evaluate'"
    behaviour = Behaviour(seconds=0.02, failure=("Error", "no"), death=(missing, "import"))
    part = bench.part(compiler="inductor")
    done = bench.run(lambda *_: behaviour, part, limits=Limits())
    assert done.reason == f"inductor: no job ended without an error, and all further ones would fail with {missing}"
    assert ends(part) == {"failed: Error": 1}
    # A loss of NaN says something about the point: it is no failure.
    part = bench.part(compiler="trcomp")
    behaviour = Behaviour(seconds=0.02, failure=("Diverged", "the training loss is nan"))
    bench.run(lambda *_: behaviour, part, limits=Limits(trials=1))
    assert ends(part) == {"pruned: the training loss is nan": 1}


def test_a_job_that_misses_the_target_or_has_no_figure_has_no_result(bench: Bench) -> None:
    part = bench.part(replace(SECONDS, target=0.5))
    bench.run(lambda *_: Behaviour(seconds=0.02, reached=False), part, limits=Limits(trials=1))
    bench.run(lambda *_: Behaviour(seconds=0.02, reached=True), part, limits=Limits(trials=2))
    assert [trial.state for trial in part.trials] == [TrialState.PRUNED, TrialState.COMPLETE]
    assert ends(part) == {"not reached": 1, "completed": 1}
    part = bench.part(Objective(cost="steady_samples_per_second"), compiler="inductor")
    behaviour = Behaviour(seconds=0.02, steady_samples_per_second=math.nan)
    bench.run(lambda *_: behaviour, part, limits=Limits())
    assert ends(part) == {"failed: NoValue": 5}


def test_a_trial_that_cannot_win_is_stopped(bench: Bench) -> None:
    """Batches of 8 take 30 s, the others 0.02 s: at the evaluation after 0.5 s at the latest, they are too dear."""

    def behaviour(_: str, point: Point) -> Behaviour:
        return Behaviour(seconds=30.0 if point.batch_size == 8 else 0.02, curve=((0.01, 50, 2.0), (0.5, 60, 2.0)))

    part = bench.part(decides=True)
    bench.run(behaviour, part)
    pruned = [trial for trial in part.trials if trial.user_attrs.get("batch_size") == 8]
    assert [trial.state for trial in pruned] == [TrialState.PRUNED] * 2
    assert all(re.match(r"pruned: .* billable seconds so far, no fewer", trial.user_attrs["end"]) for trial in pruned)
    assert all(0 < trial.user_attrs["billable_seconds"] < 30 for trial in pruned)
    # Optuna shows the seconds up to the last evaluation, not its loss of 2.0.
    assert all(trial.value == pytest.approx(0.01) or trial.value == pytest.approx(0.5, abs=0.01) for trial in pruned)
    assert bench.service.running() == []


def test_a_search_without_expected_savings_ends(bench: Bench) -> None:
    """The base was calibrated as the fastest batch size, and trains first."""
    steps = {8: 1.0, 16: 1.0, 32: 4.0}
    costs = cost_model(Measurement(batch_size=size, fits=True, step_seconds=step) for size, step in steps.items())
    part = bench.part(Objective(cost="steady_samples_per_second"), costs=costs, decides=True)
    done = bench.run(short, part, limits=Limits())
    assert "no free batch size was calibrated at more than the 16 samples/s of batch 16" in done.reason
    assert {trial.user_attrs["batch_size"] for trial in part.trials} == {16}


def test_two_objectives_and_a_bound_are_recorded(bench: Bench) -> None:
    part = bench.part(Objective(cost="usd", quality=LOSS, is_front=True))
    bench.run(short, part, limits=Limits(trials=1))
    [trial] = part.trials
    assert trial.values == [pytest.approx(trial.user_attrs["usd"]), 1.0]
    assert trial.intermediate_values == {}
    assert trial.user_attrs["curve"].startswith("[[50, 2.0, ")
    assert part.study.metric_names == ["usd", "eval_loss"]
    bounded = bench.part(replace(SECONDS, bound=0.75), compiler="inductor")
    bench.run(short, bounded, limits=Limits(trials=1))
    assert bounded.trials[0].constraints == {"quality": 0.25}  # the loss of 1.0 is above the bound


def test_a_refused_job_is_a_failed_trial(bench: Bench) -> None:
    error = QuotaError("none", "quota", is_final=True)

    class Refusing(SimulatedRunner):
        def start(self, compiler: str, point: Point, trial_number: int):  # type: ignore[no-untyped-def]
            raise error

    part = bench.part()
    bench.run_with(Refusing(bench.service, short), part, limits=Limits())
    assert ends(part)["failed: Refused"] == 5
    assert any(trial.user_attrs.get("reason") == str(error) for trial in part.trials)


def test_a_stopped_worker_stops_its_jobs_and_starts_no_more(bench: Bench) -> None:
    part = bench.part()

    def stop_after_a_start() -> None:
        until(lambda: bool(bench.service.names))
        os.kill(os.getpid(), signal.SIGTERM)

    stopping = threading.Thread(target=stop_after_a_start)
    stopping.start()
    done = bench.run(lambda *_: Behaviour(seconds=30.0), part, limits=Limits(parallel=2, max_parallel=2))
    stopping.join()
    assert done == NoTrial(reason="stopped", is_stopped=True)
    assert bench.service.running() == []
    assert ends(part) == {"failed: Stopped": len(bench.service.names)}
