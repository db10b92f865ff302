"""Following a job with an injected sleep function, and the class of every failure."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.services.harness import LocalHarness
from training.contract.errors import JobNotFound
from training.contract.events import FAILURE_CLASSES, Event
from training.contract.failures import brief
from training.services.launcher import Follower, Job, failure_of, submit


class Naps:
    """A sleep function that records each pause and calls an action at the n-th."""

    def __init__(self, due: dict[int, Any]) -> None:
        self.seconds: list[float] = []
        self._due = due

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self._due.get(len(self.seconds), lambda: None)()


def test_pauses_grow_without_updates_and_reset_after_one(tmp_path: Path) -> None:
    harness = LocalHarness(tmp_path)
    go = tmp_path / "go"
    script = """
        import pathlib, sys, time
        while not pathlib.Path(sys.argv[2]).exists(): time.sleep(0.01)
        print("new", flush=True)
        while not pathlib.Path(sys.argv[2] + "2").exists(): time.sleep(0.01)
    """
    job = submit(harness.service, harness.request(script, hyperparameters={"go": str(go)}))
    while job.describe()["SecondaryStatus"] != "Training":
        pass

    def prints() -> None:
        go.touch()
        while not job.service.logs("job").lines:
            pass

    def ends() -> None:
        Path(f"{go}2").touch()
        job.wait()

    naps = Naps({10: prints, 13: ends})
    updates = list(job.follow(sleep=naps))
    grown = [0.05 * 1.5**n for n in range(8)]
    assert naps.seconds == pytest.approx([*grown, 1.0, 1.0, *grown[:3]])
    assert [list(update.lines) for update in updates] == [[], ["new"], []]
    assert updates[1].description is None
    assert updates[2].description == job.describe()


def test_the_pause_of_wait_is_capped(tmp_path: Path) -> None:
    harness = LocalHarness(tmp_path)
    job = submit(harness.service, harness.request("import time; time.sleep(300)"))
    naps = Naps({12: job.stop})
    description = Job(harness.again(), "job").wait(sleep=naps)
    assert description["TrainingJobStatus"] == "Stopped"
    assert naps.seconds[:3] == pytest.approx([0.05, 0.075, 0.1125])
    assert max(naps.seconds) == naps.seconds[11] == 1.0


def failed(reason: str) -> dict[str, Any]:
    return {"TrainingJobStatus": "Failed", "SecondaryStatus": "Failed", "FailureReason": reason}


def failure(failure_class: str, message: str = "message of the job") -> Event:
    return Event("failure", 1, 1.0, {"failure_class": failure_class, "message": message, "traceback": ""})


START = Event("start", 0, 0.0, {})
EXIT_1 = 'AlgorithmError: ExecuteUserScriptError:\nExitCode 1\nErrorMessage "{}"'


@pytest.mark.parametrize(
    ("reason", "events", "log_tail", "expected"),
    [
        (EXIT_1.format("ValueError: x"), [], [], "Error"),
        (EXIT_1.format("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate"), [], [], "OutOfMemory"),
        (EXIT_1.format("RuntimeError: DefaultCPUAllocator: can't allocate memory"), [], [], "OutOfMemory"),
        (EXIT_1.format("MemoryError"), [], [], "OutOfMemory"),
        (EXIT_1.format(""), [], ["MemoryError"], "OutOfMemory"),
        ('x\nExitCode -9\nExtraInfo "Killed by SIGKILL"', [], [], "Killed"),
        ('x\nExitCode -9\nExtraInfo "OutOfMemory: Killed by SIGKILL"', [], [], "OutOfMemory"),
        ("InternalServerError: Killed: the job's supervisor is gone", [], [], "Killed"),
        ("ClientError: channel 'train': '/x' does not exist.", [], [], "BadData"),
        ("ClientError: Data download failed:NoSuchKey", [], [], "BadData"),
        (EXIT_1.format(""), [START, failure("BadData")], [], "BadData"),
        (
            EXIT_1.format(""),
            [START, failure("Error"), failure("OutOfMemory"), failure("Error")],
            [],
            "OutOfMemory",
        ),
        (EXIT_1.format(""), [START, failure("OutOfMemory"), START], ["ValueError"], "Error"),
        (EXIT_1.format(""), [START, failure("NoSuchClass")], [], "Error"),
        ("CapacityError: Unable to provision requested ML compute capacity.", [], [], "Capacity"),
    ],
)
def test_failure_classes(reason: str, events: list[Event], log_tail: list[str], expected: str) -> None:
    failure_class, text = failure_of(failed(reason), events, log_tail)
    assert failure_class == expected
    assert failure_class in FAILURE_CLASSES
    is_from_event = events and events[-1].kind == "failure" and expected != "Error"
    assert text == ("message of the job" if is_from_event else reason)


def test_a_killed_process_explains_the_error_of_another_process() -> None:
    reason = 'x\nExitCode 1\nExtraInfo "Killed by SIGKILL"\nErrorMessage "Error: Connection closed by peer"'
    assert failure_of(failed(reason), [START, failure("Error")], []) == ("Killed", reason)
    assert failure_of(failed(reason), [START, failure("BadData")], []) == ("BadData", "message of the job")


def test_a_stop_by_the_service_overrides_the_failure_event_of_the_job() -> None:
    stopped = {"TrainingJobStatus": "Stopped", "SecondaryStatus": "Stopped", "FailureReason": ""}
    assert failure_of(stopped, [failure("Error")], []) == ("Stopped", "it was stopped")
    late = stopped | {
        "SecondaryStatus": "MaxRuntimeExceeded",
        "StoppingCondition": {"MaxRuntimeInSeconds": 9, "MaxWaitTimeInSeconds": 9},
    }
    assert failure_of(late, [failure("Killed")], []) == ("TimeLimit", "it ran longer than its 9 seconds")
    assert failure_of(late | {"SecondaryStatus": "MaxWaitTimeExceeded"}, [], [])[0] == "TimeLimit"


def test_the_brief_reason_is_the_last_line_of_the_error() -> None:
    head = "AlgorithmError: ExecuteUserScriptError:\n"
    failed = head + 'ExitCode 1\nErrorMessage "Traceback:\nValueError: no such label"'
    assert brief(failed) == "ValueError: no such label"


def test_without_a_reason_the_last_log_line_is_the_reason() -> None:
    assert failure_of(failed(""), [], ["a", "b"]) == ("Error", "b")
    assert failure_of(failed(""), [], []) == ("Error", "")


def test_a_created_job_that_no_longer_exists_has_failed(tmp_path: Path) -> None:
    harness = LocalHarness(tmp_path)
    job = submit(harness.service, harness.request("pass"))
    job.wait()
    shutil.rmtree(harness.job_folder())
    follower = Follower(job, exists=True)
    # A new job may take a moment to appear everywhere.
    assert [follower.look(), follower.look(), follower.ended] == [None, None, False]
    update = follower.look()
    assert follower.ended
    assert update is not None
    assert update.description is not None
    failure_class, reason = failure_of(update.description, [], [])
    assert failure_class == "Vanished"
    assert reason.startswith("Job 'job' does not exist in ")
    assert reason.endswith(", though it was created: it may have been deleted.")
    with pytest.raises(JobNotFound):
        Follower(job).look()
