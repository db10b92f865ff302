"""Workers that die, pause or lose the storage, and their successors, step by step on SQLite."""

from __future__ import annotations

from pathlib import Path

import pytest
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import TrialState
from sqlalchemy.exc import OperationalError

from sweeps.optuna_study import (
    Claim,
    Limits,
    NoTrial,
    Part,
    distributions,
    lost_trials,
    recover_trials,
    repeated_trials,
)
from sweeps.storage import StorageRetries, without_optuna_warnings
from sweeps.trials import TrialOutcome
from sweeps.worker import FollowedTrial
from tests.support.sweeps.bench import SPACE, Bench, short
from tests.support.sweeps.simulated_jobs import Behaviour, SimulatedRunner
from training.contract.errors import StorageError

ONE = Limits(trials=1, parallel=1, max_parallel=1)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def claimed(bench: Bench, part: Part, limits: Limits = ONE) -> Claim:
    answer = bench.ask(part, limits=limits)
    assert isinstance(answer, Claim), answer
    return answer


def fail(bench: Bench, claim: Claim) -> None:
    """Let the worker's last heartbeat be too old."""
    bench.storage.rdb.set_trial_state_values(claim.trial._trial_id, TrialState.FAIL)


def states(part: Part) -> list[str]:
    return [trial.state.name for trial in part.trials]


def test_the_trial_of_a_dead_worker_comes_back_with_its_job(bench: Bench) -> None:
    """The worker may also die between failing the trial and repeating it, which is recovered separately."""
    part = bench.part()
    first = claimed(bench, part)
    runner = bench.runner(short)
    runner.start("none", first.point, 0)
    fail(bench, first)
    bench.run_with(runner, part, limits=ONE)
    assert states(part) == ["FAIL", "COMPLETE"]
    assert repeated_trials(part.trials[1]) == [0]
    assert part.trials[1].user_attrs["job"] == first.job_name
    assert bench.service.creations == {first.job_name: 1}
    assert part.trials[1].user_attrs["billable_seconds"] == pytest.approx(bench.service.billable_instance_seconds)


def test_a_worker_that_died_before_its_first_heartbeat_leaves_nothing_behind(bench: Bench) -> None:
    part = bench.part()
    without_optuna_warnings(part.study.ask)  # no point yet
    without_optuna_warnings(part.study.ask, distributions(SPACE))  # a point, no claim
    assert states(part) == ["RUNNING", "RUNNING"]
    assert bench.run(short, part, limits=ONE).reason == "none: 1 trial was run"
    assert states(part) == ["FAIL", "FAIL", "COMPLETE"]
    assert [repeated_trials(trial) for trial in part.trials] == [[], [], [1]]


def test_a_worker_may_die_between_end_and_state(bench: Bench) -> None:
    part = bench.part()
    first = claimed(bench, part)
    first.trial.set_user_attr("end", "completed")
    fail(bench, first)
    assert [trial.number for trial in lost_trials(part.trials)] == [0]
    bench.run(short, part, limits=ONE)
    assert states(part) == ["FAIL", "COMPLETE"]


def test_a_trial_is_not_repeated_for_ever(bench: Bench) -> None:
    part = bench.part()
    for _ in range(21):
        fail(bench, claimed(bench, part, Limits()))
    without_optuna_warnings(recover_trials, part, bench.messages.append)
    without_optuna_warnings(recover_trials, part, bench.messages.append)
    assert states(part) == ["FAIL"] * 21
    [messages] = bench.messages
    assert messages.startswith("Giving up trial 20 of none (job job-none-")


def test_a_paused_worker_changes_nothing(bench: Bench) -> None:
    """Another worker has its trial by then, so neither the trial nor the job is changed."""
    part = bench.part()
    first = claimed(bench, part)
    runner = bench.runner(lambda *_: Behaviour(seconds=30.0, curve=((0.0, 50, 2.0),)))
    paused = FollowedTrial(bench.storage, first, runner.start("none", first.point, 0))
    fail(bench, first)
    second = claimed(bench, part)
    assert (second.trial.number, second.job_name) == (1, first.job_name)
    with pytest.raises(UpdateFinishedTrialError):
        paused.look()
    with pytest.raises(UpdateFinishedTrialError):
        paused.record_outcome(TrialOutcome(billable_instance_seconds=1.0), runner)
    assert runner.ends == {}
    assert bench.service.running() == [first.job_name]
    assert states(part) == ["FAIL", "RUNNING"]


def test_a_worker_gives_up_a_trial_that_another_continues(bench: Bench) -> None:
    part = bench.part()

    class Pausing(SimulatedRunner):
        def start(self, compiler: str, point, trial_number: int):  # type: ignore[no-untyped-def]
            if trial_number == 0:
                bench.storage.rdb.set_trial_state_values(part.trials[0]._trial_id, TrialState.FAIL)
            return super().start(compiler, point, trial_number)

    bench.run_with(Pausing(bench.service, short), part, limits=ONE)
    assert states(part) == ["FAIL", "COMPLETE"]
    assert set(bench.service.creations.values()) == {1}
    assert any("taken over by another worker" in line for line in bench.messages)


def test_an_old_trial_stays_another_workers_until_it_is_stale(bench: Bench) -> None:
    part = bench.part()
    first = claimed(bench, part)
    answer = bench.ask(part, limits=Limits(trials=9, max_parallel=1))
    assert answer == NoTrial(reason="1 jobs are running, which is max_parallel")
    with bench.storage.rdb.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE trial_heartbeats SET heartbeat = datetime('now', '-1 hour')")
    second = claimed(bench, part, Limits(trials=9, max_parallel=1))
    assert second.point == first.point
    assert states(part) == ["FAIL", "RUNNING"]


def test_only_one_worker_claims_at_a_time(bench: Bench) -> None:
    part = bench.part()
    with bench.storage.lock("s") as is_held:
        assert is_held
        assert bench.ask(part) == NoTrial(reason="another worker is claiming a trial", is_busy=True)
    assert isinstance(bench.ask(part), Claim)


def test_calls_wait_for_a_silent_storage() -> None:
    clock, messages = [0.0], list[str]()

    def gone_for_a_minute() -> str:
        if clock[0] < 60:
            raise OperationalError("SELECT 1", {}, Exception("connection refused"))
        return "answer"

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    retries = StorageRetries("postgresql://host/s", echo=messages.append, sleep=sleep, clock=lambda: clock[0])
    assert retries.call(gone_for_a_minute) == "answer"
    assert messages == [
        "The storage postgresql://host/s does not answer (connection refused); jobs keep running, and nothing is lost.",
        "The storage postgresql://host/s answers again.",
    ]


def test_a_storage_that_stays_silent_and_a_deleted_study_are_errors(bench: Bench) -> None:
    def gone() -> None:
        raise OperationalError("SELECT 1", {}, Exception("no host at postgresql://me:secret@host"))

    retries = StorageRetries("postgresql://host/s", retry_seconds=0.2, echo=lambda _: None)
    with pytest.raises(StorageError, match=r"has not answered for \d+ s: no host at postgresql://host\.$"):
        retries.call(gone)
    part = bench.part()
    bench.storage.rdb.delete_study(part.study._study_id)
    with pytest.raises(StorageError, match=r"^The study of this sweep no longer exists in sqlite:.*: somebody deleted"):
        bench.run(short, part)
