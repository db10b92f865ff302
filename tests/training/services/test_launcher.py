"""Following without a clock, and the class of every failure."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.services.places import LocalPlace
from training.contract.errors import JobNotFound
from training.contract.events import FAILURE_CLASSES, Event
from training.contract.failures import brief
from training.services.launcher import Follower, Job, failure_of, submit


class Naps:
    """A clock to pass in: notes each pause, and does what is due at the n-th."""

    def __init__(self, due: dict[int, Any]) -> None:
        self.seconds: list[float] = []
        self._due = due

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self._due.get(len(self.seconds), lambda: None)()


def test_pauses_grow_while_nothing_is_new_and_start_again(tmp_path: Path) -> None:
    place = LocalPlace(tmp_path)
    go = tmp_path / "go"
    script = """
        import pathlib, sys, time
        while not pathlib.Path(sys.argv[2]).exists(): time.sleep(0.01)
        print("new", flush=True)
        while not pathlib.Path(sys.argv[2] + "2").exists(): time.sleep(0.01)
    """
    job = submit(place.service, place.request(script, hyperparameters={"go": str(go)}))
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


def test_waiting_is_capped(tmp_path: Path) -> None:
    place = LocalPlace(tmp_path)
    job = submit(place.service, place.request("import time; time.sleep(300)"))
    naps = Naps({12: job.stop})
    description = Job(place.again(), "job").wait(sleep=naps)
    assert description["TrainingJobStatus"] == "Stopped"
    assert naps.seconds[:3] == pytest.approx([0.05, 0.075, 0.1125])
    assert max(naps.seconds) == naps.seconds[11] == 1.0


def failed(reason: str) -> dict[str, Any]:
    return {"TrainingJobStatus": "Failed", "SecondaryStatus": "Failed", "FailureReason": reason}


def said(failure_class: str, message: str = "it says") -> Event:
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
        (EXIT_1.format(""), [START, said("BadData")], [], "BadData"),
        (EXIT_1.format(""), [START, said("Error"), said("OutOfMemory"), said("Error")], [], "OutOfMemory"),
        (EXIT_1.format(""), [START, said("OutOfMemory"), START], ["ValueError"], "Error"),
        (EXIT_1.format(""), [START, said("NoSuchClass")], [], "Error"),
        ("CapacityError: Unable to provision requested ML compute capacity.", [], [], "Capacity"),
    ],
)
def test_failure_classes(reason: str, events: list[Event], log_tail: list[str], expected: str) -> None:
    failure_class, text = failure_of(failed(reason), events, log_tail)
    assert failure_class == expected
    assert failure_class in FAILURE_CLASSES
    assert text == ("it says" if events and events[-1].kind == "failure" and expected != "Error" else reason)


def test_a_process_that_was_killed_says_more_than_the_one_that_misses_it() -> None:
    reason = 'x\nExitCode 1\nExtraInfo "Killed by SIGKILL"\nErrorMessage "Error: Connection closed by peer"'
    assert failure_of(failed(reason), [START, said("Error")], []) == ("Killed", reason)
    assert failure_of(failed(reason), [START, said("BadData")], []) == ("BadData", "it says")


def test_what_the_service_did_comes_before_what_the_job_said() -> None:
    stopped = {"TrainingJobStatus": "Stopped", "SecondaryStatus": "Stopped", "FailureReason": ""}
    assert failure_of(stopped, [said("Error")], []) == ("Stopped", "it was stopped")
    late = stopped | {
        "SecondaryStatus": "MaxRuntimeExceeded",
        "StoppingCondition": {"MaxRuntimeInSeconds": 9, "MaxWaitTimeInSeconds": 9},
    }
    assert failure_of(late, [said("Killed")], []) == ("TimeLimit", "it ran longer than its 9 seconds")
    assert failure_of(late | {"SecondaryStatus": "MaxWaitTimeExceeded"}, [], [])[0] == "TimeLimit"


def test_one_line_of_a_killed_job_tells_the_signal_and_not_what_it_said_last() -> None:
    head = "AlgorithmError: ExecuteUserScriptError:\n"
    failed = head + 'ExitCode 1\nErrorMessage "Traceback:\nValueError: no such label"'
    assert brief(failed) == "ValueError: no such label"


def test_without_a_reason_the_last_line_is_one() -> None:
    assert failure_of(failed(""), [], ["a", "b"]) == ("Error", "b")
    assert failure_of(failed(""), [], []) == ("Error", "")


def test_a_job_that_was_there_and_is_not_any_more_has_failed(tmp_path: Path) -> None:
    place = LocalPlace(tmp_path)
    job = submit(place.service, place.request("pass"))
    job.wait()
    shutil.rmtree(place.job_folder())
    follower = Follower(job, exists=True)
    # A new job may not be known everywhere at once.
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
