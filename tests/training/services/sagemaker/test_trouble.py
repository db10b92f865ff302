"""Faults of SageMaker during a command, as the command line reports them."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from experiments.running import scheduler
from experiments.running.scheduler import run_jobs
from tests.support.aws.account import Account
from tests.support.aws.api import BROKEN, EXPIRED, THROTTLED, Dropped
from tests.support.services.following import until
from tests.support.services.harness import SageMakerHarness
from tests.support.tracking.planned_jobs import TRAIN_PY, planned_as
from tests.training.services.sagemaker.conftest import Terminal
from tracking.groups.group import child_runs, open_group
from tracking.queries.job_tables import tags_of
from tracking.server.store import open_store
from training.contract.plain_text import without_markup

pytestmark = pytest.mark.slow


@contextmanager
def meanwhile(act: Callable[[], object]) -> Iterator[None]:
    """Run `act` in a thread while the body runs a command, and wait for both."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield
    thread.join()
    assert not errors


def in_training(account: Account, end: str = "") -> str:
    """Wait until a job whose name ends with `end` is training, and return its name."""

    def training() -> list[str]:
        described = [account.jobs.describe(name) for name in account.jobs.names() if name.endswith(end)]
        return [each["TrainingJobName"] for each in described if each["SecondaryStatus"] == "Training"]

    until(lambda: bool(training()))
    return training()[0]


@pytest.mark.gate
def test_one_job_completes_while_others_hang_or_vanish(terminal: Terminal, account: Account) -> None:
    account.jobs.faults.hanging |= {"a1r0", "a2r0"}
    account.jobs.faults.grace_seconds = 0.1
    arms = "[{batch_size: 4}, {batch_size: 8, machine.max_run_seconds: 3}, {batch_size: 2}]"
    with meanwhile(lambda: account.jobs.vanish(in_training(account, "a2r0"))):
        fields = {"compare.arms": arms, "compare.baseline": "batch 4, max run seconds 1800"}
        output = terminal("compare", {**fields, "compare.repeats": 1, "compare.parallel": 3})
        assert output.error == ""
    assert output.code == 1, output
    runs = {run.data.tags["platform.job_name"][-4:]: run for run in terminal.runs()}
    states = {name: (run.info.status, run.data.tags.get("platform.failure_class")) for name, run in runs.items()}
    assert states == {"a0r0": ("FINISHED", None), "a1r0": ("FAILED", "TimeLimit"), "a2r0": ("FAILED", "Vanished")}
    assert "failed: TimeLimit: it ran longer than its limit of 3 seconds" in output.out
    assert re.search("failed: Vanished: Job demo-.*a2r0 does not exist at SageMaker .* it may have been", output.out)
    assert len(terminal.curve(runs["a0r0"])) == 8


def test_the_same_command_resumes_after_lost_credentials(
    terminal: Terminal, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")
    account.jobs.faults.hanging.add("")

    def lose_connection() -> None:
        in_training(account)
        account.api.faults.last("DescribeTrainingJob", EXPIRED)

    with meanwhile(lose_connection):
        output = terminal("train")
    [name] = account.jobs.names()
    [line] = output.error.splitlines()
    assert (output.code, "AWS credentials have expired: renew them" in line, name in line) == (1, True, True)
    [group] = terminal.runs("group")
    command = f"jobs --service sagemaker stop --group {group.data.tags['platform.group']}"
    assert (
        f"Jobs that may still be running: {name}. The same command attaches to them; `AWS_REGION=us-east-1 trainfare"
        in line
    )
    assert command in line
    account.api.faults.last("DescribeTrainingJob", None)
    listed = terminal.run("jobs", "--service", "sagemaker", "list").out
    assert f"{name}  Training" in listed
    account.jobs.faults.hanging.clear()
    assert terminal("train").code == 0
    assert account.jobs.names() == [name]
    [run] = terminal.runs()
    assert run.info.status == "FINISHED"
    assert [step for step, _ in terminal.curve(run)] == list(range(1, 9))
    assert len(terminal.runs("group")) == 1


def test_repeated_responses_are_recorded_once(terminal: Terminal, account: Account) -> None:
    account.api.faults.add("CreateTrainingJob", THROTTLED, BROKEN, Dropped(done=True))
    account.api.faults.add("DescribeTrainingJob", *[THROTTLED] * 3, BROKEN, Dropped())
    account.logs_api.faults.add("FilterLogEvents", *[THROTTLED] * 3, BROKEN, Dropped())
    account.jobs.faults.lines_twice = account.logs.repeats_events = True
    output = terminal("train")
    assert output.code == 0, output
    assert len(account.jobs.names()) == 1
    [run] = terminal.runs()
    for metric in ("loss", "learning_rate", "grad_norm"):
        assert [step for step, _ in terminal.curve(run, metric)] == list(range(1, 9))
    events = Path(terminal.client.download_artifacts(run.info.run_id, "events.jsonl")).read_text().splitlines()
    assert len(set(events)) == len(events)


def test_rejected_jobs_leave_the_others_running(
    account: Account, tmp_path: Path, tracking_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    harness, store = SageMakerHarness(tmp_path, account), open_store(tracking_uri)
    account.jobs.quotas = {"ml.p3.2xlarge": 0, "ml.p3.8xlarge": 1}
    group = open_group(store, experiment_name="demo", verb="compare", key="k1")
    kinds = {
        "without-quota": {"instance_type": "ml.p3.2xlarge"},
        "too-many": {"instance_type": "ml.p3.8xlarge", "instance_count": 2},
        "no-such-type": {"instance_type": "ml.none.xlarge"},
        "granted": {"instance_type": "ml.g5.xlarge"},
    }
    steps = {"hyperparameters": {"steps": 2}}
    jobs = [planned_as(harness.spec(TRAIN_PY, name=name, **steps, **kind), name) for name, kind in kinds.items()]
    messages: list[str] = []
    outcomes = run_jobs(store, harness.service, group, jobs, echo=messages.append)
    assert account.jobs.names() == ["granted"]
    assert [outcome.failure and outcome.failure.failure_class for outcome in outcomes] == [*["Refused"] * 3, None]
    reasons = [str(outcome.refusal) for outcome in outcomes[:3]]
    assert "is 0: request an increase" in reasons[0]
    assert "is 1, and 2 were requested: request an increase" in reasons[1]
    assert "SageMaker rejected the request" in reasons[2]
    runs = child_runs(store, group)
    assert {name: run.info.status for name, run in runs.items()} == {
        **dict.fromkeys(kinds, "FAILED"),
        "granted": "FINISHED",
    }
    assert all(
        without_markup(reason) in runs[name].data.tags["mlflow.note.content"]
        for name, reason in zip(kinds, reasons, strict=False)
    )
    assert any(reasons[0] in line for line in messages)


def test_a_job_that_waits_for_the_quota_says_so_and_how_long(
    account: Account, tmp_path: Path, tracking_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("_FULL_SECONDS", "PROGRESS_SECONDS"):
        monkeypatch.setattr(scheduler, name, 1.0)
    harness, store = SageMakerHarness(tmp_path, account), open_store(tracking_uri)
    account.jobs.quotas = {"ml.g5.xlarge": 1}
    group = open_group(store, experiment_name="demo", verb="compare", key="k1")
    slow = {"hyperparameters": {"steps": 12, "pause": 0.5}, "instance_type": "ml.g5.xlarge"}
    jobs = [planned_as(harness.spec(TRAIN_PY, name=f"job-{n}", **slow), "none", n) for n in range(2)]
    messages: list[str] = []
    outcomes = run_jobs(store, harness.service, group, jobs, parallel=2, echo=messages.append)
    assert [outcome.failure for outcome in outcomes] == [None, None]
    quota = r"the quota 'ml\.g5\.xlarge for training job usage' \(all of it is in use\)"
    assert any(re.search(rf"none, repeat 2 has waited \d+ s for {quota}", line) for line in messages), messages


def test_the_fallback_type_is_recorded_and_priced(terminal: Terminal, account: Account) -> None:
    account.jobs.faults.no_capacity.add("ml.g5.xlarge")
    output = terminal("train", {"machine.fallback_instance_types": "ml.g4dn.xlarge"})
    assert output.code == 0, output
    [run] = terminal.runs()
    assert run.data.tags["platform.instance_type"] == "ml.g4dn.xlarge"
    # This type costs half a dollar per second; the unavailable one costs a dollar.
    assert run.data.metrics["cost/usd"] == pytest.approx(0.5 * run.data.metrics["cost/billable_seconds"])
    assert float(tags_of(run)["platform.price_usd_per_hour"]) == 1800


def test_a_job_without_capacity_fails_and_costs_nothing(terminal: Terminal, account: Account) -> None:
    """It is tried as often as there are pauses, and one run records all attempts."""
    account.jobs.faults.no_capacity.add("ml.g5.xlarge")
    output = terminal("train", {"max_usd": 10_000_000})
    assert output.code == 1
    assert "failed: CapacityError: Unable to provision requested ML compute capacity" in output.out
    assert "It cost nothing, and starts again in 0 s (attempt 2 of 3)" in output.out
    [run] = terminal.runs()
    tags = run.data.tags
    assert (run.info.status, tags["platform.failure_class"]) == ("FAILED", "Capacity")
    assert not [name for name in run.data.metrics if name.startswith("cost/")]
    name = tags["platform.job_name"]
    assert account.jobs.names() == [name, f"{name}-c1", f"{name}-c2"]
    assert (tags["platform.service_name"], tags["platform.capacity_retries"]) == (f"{name}-c2", "2")
    requests = [account.jobs.request(each) for each in account.jobs.names()]
    assert all(_without_name(each) == _without_name(requests[0]) for each in requests)


def test_a_job_gets_its_budget_once(terminal: Terminal, account: Account) -> None:
    """The second attempt has the time limit of the first, to which the budget has lowered it."""
    account.jobs.faults.no_capacity.add("ml.g5.xlarge")

    def provide() -> None:
        until(lambda: bool(account.jobs.names()))
        account.jobs.faults.no_capacity.clear()

    thread = threading.Thread(target=provide, daemon=True)
    thread.start()
    # The instance costs a dollar per second.
    output = terminal("train", {"max_usd": 1000})
    thread.join()
    assert output.code == 0, output
    first, *later = (account.jobs.request(name)["StoppingCondition"] for name in account.jobs.names())
    assert later
    assert all(each == first for each in later)
    assert first["MaxRuntimeInSeconds"] < 1000
    [run] = terminal.runs()
    assert run.info.status == "FINISHED"
    assert len(terminal.curve(run)) == 8
    [group] = terminal.runs("group")
    assert group.data.metrics["cost/usd"] == pytest.approx(run.data.metrics["cost/usd"])


def _without_name(request: dict[str, Any]) -> dict[str, Any]:
    """Return a request without the name of its job, which the toolkit gets as well."""
    hyperparameters = {k: v for k, v in request["HyperParameters"].items() if k != "sagemaker_job_name"}
    return {**request, "TrainingJobName": "", "HyperParameters": hyperparameters}
