"""Logs and billed seconds that SageMaker shows after the end of a job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.__main__ import main
from experiments.running.scheduler import run_jobs
from tests.support.aws.account import Account
from tests.support.services import following
from tests.support.services.harness import SageMakerHarness
from tests.support.tracking.planned_jobs import TRAIN_PY, planned_as
from tracking.groups.group import Group, child_runs, close_group, open_group
from tracking.groups.plan_file import write_plan
from tracking.queries.job_tables import tags_of
from tracking.server.store import Store, open_store
from training.contract.service import is_billed
from training.services.launcher import Follower, Job, submit
from training.services.sagemaker.clients import Clients
from training.services.sagemaker.service import SageMakerService

NEVER = 86_400.0
STEPS = {"hyperparameters": {"steps": 2}}


@pytest.fixture
def harness(account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SageMakerHarness:
    monkeypatch.chdir(tmp_path)
    return SageMakerHarness(tmp_path, account)


def followed(job: Job, at: Callable[[float], None], *, emits_events: bool) -> tuple[Follower, float]:
    """Follow an ended job by a clock that only its pauses move. Return the follower and the seconds that it took.

    `at` is called with the time before each look.
    """
    now = 0.0
    follower = Follower(job, emits_events=emits_events, clock=lambda: now)
    while not follower.ended:
        at(now)
        follower.look()
        now += 0.0 if follower.ended else follower.pause_seconds
    return follower, now


def ended(harness: SageMakerHarness, script: str, **fields: object) -> Job:
    """Run a job to its end. Return it at the service with the delays of SageMaker."""
    following.ended(submit(harness.service, harness.request(script, **fields)))
    return Job(SageMakerService(Clients()), "job")


@pytest.mark.parametrize("emits_events", [True, False], ids=["our job", "a script"])
def test_a_follower_waits_for_the_log_and_the_billed_seconds(
    harness: SageMakerHarness, account: Account, emits_events: bool
) -> None:
    job = ended(harness, TRAIN_PY if emits_events else "print('loss 0.5')", **(STEPS if emits_events else {}))
    # What has not arrived after ten minutes is missing.
    account.logs.delay_seconds = account.jobs.faults.billing_seconds = NEVER
    follower, seconds = followed(job, lambda _: None, emits_events=emits_events)
    assert follower.missing == ("log", "billing")
    assert 500 < seconds <= 600  # counted from the end of the job, some seconds before the first look

    def at(seconds: float) -> None:
        account.logs.delay_seconds = NEVER if seconds < 25 else 0.0
        account.jobs.faults.billing_seconds = NEVER if seconds < 100 else 0.0

    follower, seconds = followed(job, at, emits_events=emits_events)
    assert follower.missing == ()
    assert follower.description is not None
    assert is_billed(follower.description)
    assert 100 <= seconds <= 115  # the longest pause is 15 s
    # A log without a last event is complete after a minute of silence.
    follower, seconds = followed(job, lambda _: None, emits_events=emits_events)
    assert follower.missing == ()
    least = 15 if emits_events else 60
    assert least <= round(seconds) <= least + 15


@pytest.mark.gate
@pytest.mark.slow
def test_the_next_job_starts_while_records_are_awaited(
    harness: SageMakerHarness, account: Account, tracking_uri: str
) -> None:
    account.logs.delay_seconds, account.jobs.faults.billing_seconds = 4.0, 1.5
    store = open_store(tracking_uri)
    group = open_group(store, experiment_name="demo", verb="compare", key="k1")
    jobs = [planned_as(harness.spec(TRAIN_PY, name=f"job-{n}", **STEPS), "none", n) for n in range(2)]
    started: dict[str, list[str]] = {}
    harness.service.longest_delay_seconds = 60.0
    run_jobs(store, harness.service, group, jobs, echo=lambda line: started.setdefault(line, account.jobs.names()))
    [outcome_of_first, *_] = [names for line, names in started.items() if "none, repeat 1: " in line]
    assert outcome_of_first == ["job-0", "job-1"]
    for run in child_runs(store, group).values():
        assert (run.info.status, tags_of(run)["platform.missing"]) == ("FINISHED", "no")
        assert run.data.metrics["eval_accuracy"] == 0.75
        assert run.data.metrics["cost/billable_seconds"] >= 1
        assert [point.value for point in store.client.get_metric_history(run.info.run_id, "loss")] == [1.0, 0.5]


@pytest.mark.gate
@pytest.mark.slow
def test_attach_reads_what_was_missing(
    harness: SageMakerHarness,
    account: Account,
    tracking_uri: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in {"MLFLOW_TRACKING_URI": tracking_uri, "TRAINFARE_HOME": str(tmp_path / "home")}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(SageMakerService, "log_delay_seconds", 0.5)
    store = open_store(tracking_uri)
    group = open_group(store, experiment_name="demo", verb="train", key="k1")
    # Until the billed seconds arrive, whole seconds of the job's time are counted.
    spec = harness.spec(TRAIN_PY, name="job-0", hyperparameters={"steps": 2, "pause": 0.6})
    jobs = [planned_as(spec, "none")]
    write_plan(store, group, jobs, 1, tmp_path / "home")
    account.logs.delay_seconds = account.jobs.faults.billing_seconds = NEVER
    service, lines = harness.again(), list[str]()
    service.longest_delay_seconds = 1.0
    [outcome] = run_jobs(store, service, group, jobs, echo=lines.append)
    close_group(store, group, "FINISHED")
    assert outcome.failure is None
    assert outcome.cost.seconds > 0
    late = "the end of its log and its billed seconds"
    assert f"  none, repeat 1: {late} had not arrived when this command stopped waiting" in lines
    assert missing_and_metrics(store, group)[0] == "log, billing"
    sentence = f"SageMaker had not delivered in time. Run `trainfare attach --group {group.id}` later to add them."
    assert main(["report", "--group", group.id]) == 0
    assert sentence in " ".join(capsys.readouterr().out.split())
    account.logs.delay_seconds = account.jobs.faults.billing_seconds = 0.0
    assert main(["attach", "--group", group.id]) == 0
    assert sentence not in " ".join(capsys.readouterr().out.split())
    missing, metrics = missing_and_metrics(store, group)
    assert (missing, metrics["eval_accuracy"], metrics["loss"]) == ("no", 0.75, 0.5)
    assert metrics["cost/billable_seconds"] >= 1
    assert main(["attach", "--group", group.id]) == 2
    assert f"group {group.id} has ended" in capsys.readouterr().err


def missing_and_metrics(store: Store, group: Group) -> tuple[str, dict[str, float]]:
    [run] = child_runs(store, group).values()
    return tags_of(run)["platform.missing"], run.data.metrics
