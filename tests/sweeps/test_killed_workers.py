"""Eight workers on one PostgreSQL, killed again and again: every trial completes, and no job starts twice or is left
over."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

from sweeps.optuna_study import repeated_trials
from tests.support.sweeps.postgres import postgres, postgres_server, start_server
from tests.support.sweeps.simulated_jobs import SimulatedService
from tests.support.sweeps.worker_process import Plan, start

WORKERS, KILLS, TRIALS = 8, 20, 40
COMPILERS = ("none", "inductor")


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.usefixtures("every_core")
def test_killed_workers_lose_nothing_and_start_nothing_twice(tmp_path: Path) -> None:
    with postgres() as url:
        plan = Plan(
            url=url, folder=str(tmp_path / "jobs"), trials=TRIALS, max_parallel=WORKERS, compilers=COMPILERS,
            parallel=2,
        )  # fmt: skip
        log = tmp_path / "workers.txt"
        _kill_and_replace(plan, log)
        trials = _checked(plan, log)
        service = SimulatedService(Path(plan.folder))
        assert service.most_at_once() <= plan.max_parallel
        jobs = {trial.user_attrs["job"] for trial in trials if "job" in trial.user_attrs}
        assert jobs == set(service.names)
        completed = [trial for trial in trials if trial.state == TrialState.COMPLETE]
        used = sum(trial.user_attrs["billable_seconds"] for trial in completed)
        assert used == pytest.approx(service.billable_instance_seconds)
        # It would prove nothing if no trial had lost its worker.
        assert any(repeated_trials(trial) for trial in trials)


def _checked(plan: Plan, log: Path) -> list[optuna.trial.FrozenTrial]:
    """Return all trials after checking that they completed and that no job started twice or is left over."""
    output, service = log.read_text(), SimulatedService(Path(plan.folder))
    print(output)
    assert "Traceback" not in output
    assert service.running() == []
    assert set(service.creations.values()) == {1}
    storage = optuna.storages.RDBStorage(plan.url.replace("postgresql://", "postgresql+psycopg://"))
    studies = [optuna.load_study(study_name=f"s/{name}", storage=storage).trials for name in plan.compilers]
    storage.engine.dispose()
    for trials in studies:
        complete = [trial for trial in trials if trial.state == TrialState.COMPLETE]
        assert {trial.state for trial in trials} <= {TrialState.COMPLETE, TrialState.FAIL}
        assert len(complete) == len({trial.user_attrs["job"] for trial in complete}) == plan.trials
        for trial in complete:
            assert trial.user_attrs["end"] == "completed"
            assert [point[:2] for point in json.loads(trial.user_attrs["curve"])] == [[50, 2.0], [100, 1.0]]
    return [trial for trials in studies for trial in trials]


def _kill_and_replace(plan: Plan, log: Path) -> None:
    """Keep eight workers running, kill one of them at a random moment twenty times, and wait for the rest."""
    draw = random.Random(7)
    workers = [start(plan, log) for _ in range(WORKERS)]
    try:
        for _ in range(KILLS):
            time.sleep(draw.uniform(0.1, 1.2))
            _wait_for_running_jobs(SimulatedService(Path(plan.folder)))
            index = draw.randrange(WORKERS)
            os.killpg(workers[index].pid, signal.SIGKILL)
            workers[index].wait()
            workers[index] = start(plan, log)
        assert [worker.wait(timeout=400) for worker in workers] == [0] * WORKERS, log.read_text()
    finally:
        _end(workers)


def _wait_for_running_jobs(service: SimulatedService) -> None:
    """Wait until several workers run a job, or a kill would hit only workers that are starting."""
    deadline = time.monotonic() + 5
    while len(service.running()) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)


def _end(workers: list[subprocess.Popen[bytes]]) -> None:
    for worker in workers:
        if worker.poll() is None:
            worker.kill()
            worker.wait()


@pytest.mark.slow
@pytest.mark.usefixtures("every_core")
def test_a_server_that_restarts_costs_nothing(tmp_path: Path) -> None:
    """The server stops during the sweep, with all connections, and starts again after some seconds."""
    with postgres_server() as server:
        plan = Plan(
            url=server.get_uri(), folder=str(tmp_path / "jobs"), trials=30, max_parallel=4, parallel=2, together=2
        )
        log = tmp_path / "workers.txt"
        workers = [start(plan, log) for _ in range(2)]
        service = SimulatedService(Path(plan.folder))
        try:
            while len(service.names) < 8:
                time.sleep(0.1)
            server.stop()
            time.sleep(6)
            start_server(server)
            assert [worker.wait(timeout=240) for worker in workers] == [0, 0], log.read_text()
        finally:
            _end(workers)
        assert "; jobs keep running, and nothing is lost." in log.read_text()
        _checked(plan, log)
