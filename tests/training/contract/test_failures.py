"""Failure class and reason of a job, from its description, its events and its log."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from training.contract.events import FAILURE_CLASSES, Event
from training.contract.failures import (
    TRACEBACK,
    LastException,
    failure_of,
    failure_text,
    lacks_capacity,
    last_exception,
    one_line_reason,
    repair_last_traceback,
    vanished_description,
)


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
        (EXIT_1.format(""), [], ["MemoryError"], "OutOfMemory"),
        ('x\nExitCode -9\nExtraInfo "Killed by SIGKILL"', [], [], "Killed"),
        ('x\nExitCode -9\nExtraInfo "OutOfMemory: Killed by SIGKILL"', [], [], "OutOfMemory"),
        ("InternalServerError: Killed: the job's supervisor is gone", [], [], "Killed"),
        ("ClientError: channel 'train': '/x' does not exist.", [], [], "BadData"),
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
def test_every_failure_has_its_class(reason: str, events: list[Event], log_tail: list[str], expected: str) -> None:
    failure_class, text = failure_of(failed(reason), events, log_tail)
    assert failure_class == expected
    assert failure_class in FAILURE_CLASSES
    is_from_event = events and events[-1].kind == "failure" and expected != "Error"
    assert text == ("message of the job" if is_from_event else reason)


def test_a_kill_takes_precedence_over_the_plain_error_of_a_sibling_process() -> None:
    reason = 'x\nExitCode 1\nExtraInfo "Killed by SIGKILL"\nErrorMessage "Error: Connection closed by peer"'
    assert failure_of(failed(reason), [START, failure("Error")], []) == ("Killed", reason)
    assert failure_of(failed(reason), [START, failure("BadData")], []) == ("BadData", "message of the job")


def test_a_stop_by_the_service_takes_precedence_over_the_failure_event() -> None:
    stopped = {"TrainingJobStatus": "Stopped", "SecondaryStatus": "Stopped", "FailureReason": ""}
    assert failure_of(stopped, [failure("Error")], []) == ("Stopped", "it was stopped")
    over_time = stopped | {
        "SecondaryStatus": "MaxRuntimeExceeded",
        "StoppingCondition": {"MaxRuntimeInSeconds": 9, "MaxWaitTimeInSeconds": 9},
    }
    assert failure_of(over_time, [failure("Killed")], []) == ("TimeLimit", "it ran longer than its limit of 9 seconds")
    failure_class, reason = failure_of(over_time | {"SecondaryStatus": "MaxWaitTimeExceeded"}, [], [])
    assert failure_class == "TimeLimit"
    assert reason.startswith("it took longer than its limit of 9 seconds")


def test_the_one_line_reason_of_an_error_is_its_last_line() -> None:
    assert one_line_reason(EXIT_1.format("Traceback:\nValueError: no such label")) == "ValueError: no such label"
    assert one_line_reason("ClientError: channel 'train': '/x' does not exist.\n").endswith("'/x' does not exist.")
    assert one_line_reason("") == ""


@pytest.mark.parametrize(
    ("failure_class", "reason", "text"),
    [
        ("Error", "Traceback:\nValueError: no such label", "ValueError: no such label"),
        ("OutOfMemory", 'ExitCode -9\nExtraInfo "OutOfMemory: Killed by SIGKILL"', "OutOfMemory: Killed by SIGKILL"),
        ("BadData", "no such file", "BadData: no such file"),
        ("Error", "", "Error"),
    ],
)
def test_a_failure_names_its_class_once(failure_class: str, reason: str, text: str) -> None:
    assert failure_text(failure_class, reason) == text


def test_without_a_reason_the_last_log_line_is_the_reason() -> None:
    assert failure_of(failed(""), [], ["a", "b"]) == ("Error", "b")
    assert failure_of(failed(""), [], []) == ("Error", "")


def test_a_vanished_job_has_failed_and_keeps_its_last_known_fields() -> None:
    created = datetime(2026, 11, 1, tzinfo=UTC)
    last_known = {"TrainingJobName": "demo", "TrainingJobStatus": "InProgress", "CreationTime": created}
    description = vanished_description("demo", last_known, "Job 'demo' does not exist.")
    assert description["CreationTime"] == created
    assert description["TrainingJobStatus"] == description["SecondaryStatus"] == "Failed"
    reason = "Job 'demo' does not exist, though it was created: it may have been deleted."
    assert failure_of(description, [START], ["MemoryError"]) == ("Vanished", reason)


def test_describing_a_vanished_job_again_changes_nothing() -> None:
    first = vanished_description("demo", None, "Job 'demo' does not exist.")
    assert vanished_description("demo", first, "Job 'demo' does not exist.") is first


def test_an_error_that_was_printed_in_pieces_is_put_together() -> None:
    """SageMaker's toolkit prints each piece that an unbuffered Python writes as a line."""
    pieces = ["Traceback (most recent call last):", 'File "/opt/ml/code/train.py", line 5, in <module>', "third", "("]
    pieces += ["^", "^", "IndexError", ":", "list index out of range", '"']
    reason = 'AlgorithmError: ExecuteUserScriptError:\nExitCode 1\nErrorMessage "' + "\n".join(pieces)
    assert one_line_reason(reason) == "IndexError: list index out of range"
    assert str(last_exception(repair_last_traceback(pieces[:-1]))) == "IndexError: list index out of range"
    assert last_exception(["IndexError", ":", "a table of errors"]) is None


def died(tmp_path: Path, source: str) -> LastException | None:
    """Return the exception of a program, as this Python prints it."""
    (tmp_path / "train.py").write_text(source)
    done = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    return last_exception(("started\n" + done.stderr).splitlines())


@pytest.mark.parametrize(
    ("source", "text", "is_at_import"),
    [
        ("import not_installed", "ModuleNotFoundError: No module named 'not_installed'", True),
        ("def f(:\n    pass", "SyntaxError: invalid syntax", True),
        ("print(undefined)", "NameError: name 'undefined' is not defined", True),
        ("def f():\n    undefined\nf()", "NameError: name 'undefined' is not defined", False),
        ("raise RuntimeError('CUDA error\\nsecond line')", "RuntimeError: CUDA error", False),
        ("try:\n    1 / 0\nexcept ZeroDivisionError:\n    raise ValueError", "ValueError", False),
    ],
)
def test_the_exceptions_of_python_are_read(tmp_path: Path, source: str, text: str, is_at_import: bool) -> None:
    exception = died(tmp_path, source)
    assert exception is not None
    assert str(exception).startswith(text)
    assert exception.is_at_import == is_at_import


def test_the_report_of_a_launcher_is_not_the_cause() -> None:
    log = """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "/opt/ml/code/train.py", line 3, in <module>
[rank0]:     import evaluate
[rank0]: ModuleNotFoundError: No module named 'evaluate'
E1125 02:29:35 failed (exitcode: 1) local_rank: 0 (pid: 88) of binary: /usr/bin/python
Traceback (most recent call last):
  File "/usr/bin/torchrun", line 8, in <module>
    sys.exit(main())
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED"""
    assert str(last_exception(log.splitlines())) == "ModuleNotFoundError: No module named 'evaluate'"


def test_an_output_without_a_traceback_has_no_exception() -> None:
    assert last_exception([]) is None
    assert last_exception(["Note: this is a line", "Killed"]) is None
    old = ["Traceback (most recent call last):", '  File "a.py", line 1, in <module>', "ImportError: no"]
    assert last_exception([*old, *["step"] * 100]) is None


FRAME = '  File "train.py", line 5, in <module>'
SOURCE = "    third()"


@pytest.mark.parametrize(
    "lines",
    [
        [FRAME, SOURCE, "       ~~~^^^", "IndexError: list index"],
        [FRAME, SOURCE, "", "KeyboardInterrupt"],
        [FRAME, SOURCE, "stopped by the system", "bye bye"],
    ],
)
def test_other_tracebacks_stay_as_they_are(lines: list[str]) -> None:
    assert repair_last_traceback([TRACEBACK, *lines]) == [TRACEBACK, *lines]
    assert repair_last_traceback(lines) == lines


REASON = "CapacityError: Unable to provision requested ML compute capacity. Please retry using a different type."
NO_CAPACITY = {"TrainingJobStatus": "Failed", "FailureReason": REASON}


@pytest.mark.parametrize(
    ("description", "lacks"),
    [
        (NO_CAPACITY, True),
        ({**NO_CAPACITY, "TrainingJobStatus": "Stopped"}, False),
        ({**NO_CAPACITY, "FailureReason": "AlgorithmError: the script printed CapacityError"}, False),
        ({**NO_CAPACITY, "TrainingStartTime": datetime.now(UTC)}, False),
        ({**NO_CAPACITY, "BillableTimeInSeconds": 7}, False),
        ({**NO_CAPACITY, "BillableTimeInSeconds": 0}, True),
    ],
)
def test_only_a_job_without_an_instance_lacks_capacity(description: dict[str, Any], lacks: bool) -> None:
    assert lacks_capacity(description) is lacks
