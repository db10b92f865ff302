"""Faults of SageMaker during a command, as the command line reports them."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.aws.account import Account
from tests.support.aws.api import BROKEN, EXPIRED, THROTTLED, Dropped
from tests.support.services.following import until
from tests.training.services.sagemaker.conftest import Terminal

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


def test_a_hanging_job_is_stopped(terminal: Terminal, account: Account) -> None:
    account.jobs.faults.hanging.add("")
    account.jobs.faults.grace_seconds = 0.1

    def stop() -> None:
        in_training(account)
        os.kill(os.getpid(), signal.SIGINT)

    with meanwhile(stop):
        output = terminal("train")
    assert output.code == 130, output
    [run] = terminal.runs()
    assert (run.info.status, run.data.tags["platform.failure_class"]) == ("KILLED", "Stopped")


@pytest.mark.parametrize(
    ("operation", "error", "message"),
    [
        ("DescribeTrainingJob", EXPIRED, "AWS credentials have expired: renew them"),
        ("DescribeTrainingJob", Dropped(), "AWS does not answer"),
    ],
    ids=["token", "network"],
)
def test_the_same_command_resumes_after_a_lost_connection(
    terminal: Terminal,
    account: Account,
    monkeypatch: pytest.MonkeyPatch,
    operation: str,
    error: Exception,
    message: str,
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")
    account.jobs.faults.hanging.add("")

    def lose_connection() -> None:
        in_training(account)
        account.api.faults.last(operation, error)

    with meanwhile(lose_connection):
        output = terminal("train")
    [name] = account.jobs.names()
    [line] = output.error.splitlines()
    assert (output.code, message in line, name in line) == (1, True, True)
    [group] = terminal.runs("group")
    command = f"jobs --service sagemaker stop --group {group.data.tags['platform.group']}"
    assert (
        f"Jobs that may still be running: {name}. The same command attaches to them; `AWS_REGION=us-east-1 trainfare"
        in line
    )
    assert command in line
    account.api.faults.last(operation, None)
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
