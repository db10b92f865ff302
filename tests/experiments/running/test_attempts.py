"""Jobs that SageMaker has no instances for are started again, and each attempt only once."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.running.followed_job import FollowedJob, attempt_name
from experiments.running.scheduler import run_jobs, start_jobs
from tests.support.aws.account import Account
from tests.support.services.following import until
from tests.support.services.harness import SageMakerHarness
from tests.support.tracking.planned_jobs import TRAIN_PY, planned_as
from tracking.groups.group import child_runs, open_group
from tracking.groups.planned_job import PlannedJob
from tracking.recording.recorder import Outcome, open_run, request_stop
from tracking.server.store import Store, open_store
from training.contract.failures import Failure
from training.contract.job_spec import JOB_NAME_PATTERN

pytestmark = pytest.mark.slow

GPU = "ml.g5.xlarge"


class Launchers:
    """Launchers of one job."""

    def __init__(self, harness: SageMakerHarness, store: Store) -> None:
        self.harness, self.store = harness, store
        self.group = open_group(store, experiment_name="demo", verb="compare", key="k1")
        self.job = self.planned((0.2 / 60, 0.4 / 60))

    def planned(self, retry_minutes: tuple[float, ...], pause: float = 0.0) -> PlannedJob:
        """Return a job of two steps that take `pause` seconds each."""
        hyperparameters = {"steps": 2, "pause": pause}
        spec = self.harness.spec(
            TRAIN_PY, hyperparameters=hyperparameters, instance_type=GPU, capacity_retry_minutes=retry_minutes
        )
        return planned_as(spec, "none")

    def run(self, echo: Callable[[str], None] = lambda _: None) -> Outcome:
        [outcome] = run_jobs(self.store, self.harness.again(), self.group, [self.job], echo=echo)
        return outcome

    def tags(self) -> tuple[str, dict[str, str]]:
        [run] = child_runs(self.store, self.group).values()
        return run.info.status, run.data.tags


@pytest.fixture
def launchers(account: Account, tmp_path: Path, tracking_uri: str, monkeypatch: pytest.MonkeyPatch) -> Launchers:
    monkeypatch.chdir(tmp_path)
    account.jobs.faults.no_capacity.add(GPU)
    return Launchers(SageMakerHarness(tmp_path, account), open_store(tracking_uri))


def when_it_waits(act: Callable[[], object]) -> Callable[[str], None]:
    """Return an output that acts when a job begins to wait for capacity."""
    return lambda line: act() if "starts again in" in line else None


@pytest.mark.gate
def test_two_launchers_start_each_attempt_once(launchers: Launchers, account: Account) -> None:
    """They look at the job in turns, so both see that the first attempt has failed before either starts the next."""
    store, group, job = launchers.store, launchers.group, launchers.job
    echo = when_it_waits(account.jobs.faults.no_capacity.clear)
    first = FollowedJob(store, launchers.harness.again(), job, open_run(store, group, job), echo)
    second = FollowedJob(store, launchers.harness.again(), job, open_run(store, group, job), echo)
    for each in (first, second):
        each.submit()
    outcomes: dict[FollowedJob, Outcome] = {}

    def look() -> bool:
        for each in (first, second):
            if each not in outcomes and each.due <= time.monotonic() and (outcome := each.advance()):
                outcomes[each] = outcome
        return len(outcomes) == 2

    until(look)
    assert [outcome.failure for outcome in outcomes.values()] == [None, None]
    assert account.jobs.names() == ["job", "job-c1"]


def stop_from_elsewhere(launchers: Launchers) -> list[str]:
    return list(request_stop(launchers.store, group=launchers.group.id))


def test_a_request_to_stop_ends_the_wait_of_a_launcher_elsewhere(
    launchers: Launchers, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.running.followed_job.STOP_CHECK_SECONDS", 0.1)
    launchers.job = launchers.planned((10.0,))
    outcome = launchers.run(when_it_waits(lambda: stop_from_elsewhere(launchers)))
    assert outcome.failure == Failure("Stopped", "it was stopped while it waited for instances")
    assert account.jobs.names() == ["job"]
    assert launchers.tags()[0] == "KILLED"
    assert stop_from_elsewhere(launchers) == []


def test_an_attempt_that_another_launcher_had_started_is_stopped_and_recorded(
    launchers: Launchers, account: Account
) -> None:
    """Its cost counts. Without it, the run would end with the failed attempt."""
    launchers.job = launchers.planned((0.01,), pause=300)
    start_jobs(launchers.store, launchers.harness.again(), launchers.group, [launchers.job])
    until(lambda: account.jobs.describe("job")["TrainingJobStatus"] == "Failed")
    account.jobs.faults.no_capacity.clear()
    launchers.harness.again().create({**account.jobs.request("job"), "TrainingJobName": "job-c1"})
    stop_from_elsewhere(launchers)
    outcome = launchers.run()
    assert outcome.failure is not None
    assert outcome.failure.failure_class == "Stopped"
    status, tags = launchers.tags()
    assert (status, tags["platform.service_name"]) == ("KILLED", "job-c1")
    assert account.jobs.describe("job-c1")["TrainingJobStatus"] == "Stopped"


def test_the_names_of_attempts_follow_from_the_name_of_the_job() -> None:
    assert [attempt_name("demo-a0r0", number) for number in (1, 2)] == ["demo-a0r0-c1", "demo-a0r0-c2"]
    long = [f"{'a' * 51}-{'b' * 10}{at}" for at in range(2)]
    names = [attempt_name(name, number) for name in long for number in (1, 2, 12)]
    assert len(set(names)) == 6
    assert all(re.fullmatch(JOB_NAME_PATTERN, name) for name in names), names
