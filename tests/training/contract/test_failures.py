"""Failure class and reason of a job, from its description, its events and its log."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from training.contract.events import FAILURE_CLASSES, Event
from training.contract.failures import (
    TRACEBACK,
    Failure,
    LastException,
    failure_of,
    failure_of_reason,
    lacks_capacity,
    last_exception,
    repair_last_traceback,
    service_failure,
    vanished_description,
)


def failed(reason: str) -> dict[str, Any]:
    return {"TrainingJobStatus": "Failed", "SecondaryStatus": "Failed", "FailureReason": reason}


def failure(failure_class: str, message: str = "message of the job") -> Event:
    return Event("failure", 1, 1.0, {"failure_class": failure_class, "message": message, "traceback": ""})


START = Event("start", 0, 0.0, {})
EXIT_1 = 'AlgorithmError: ExecuteUserScriptError:\nExitCode 1\nErrorMessage "{}"'


SIBLINGS = [START, failure("Error"), failure("OutOfMemory"), failure("Error")]
CUDA = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate"
CPU = "RuntimeError: DefaultCPUAllocator: can't allocate memory"
NO_CHANNEL = "ClientError: channel 'train': '/x' does not exist."
NO_CAPACITY_TEXT = "CapacityError: Unable to provision requested ML compute capacity."


@pytest.mark.parametrize(
    ("reason", "events", "log_tail", "expected"),
    [
        (EXIT_1.format("ValueError: x"), [], [], Failure("Error", "ValueError: x")),
        (EXIT_1.format(CUDA), [], [], Failure("OutOfMemory", CUDA)),
        (EXIT_1.format(CPU), [], [], Failure("OutOfMemory", CPU)),
        (EXIT_1.format(""), [], ["MemoryError"], Failure("OutOfMemory", "MemoryError")),
        ('x\nExitCode -9\nExtraInfo "Killed by SIGKILL"', [], [], Failure("Killed", "Killed by SIGKILL")),
        (
            'x\nExitCode -9\nExtraInfo "OutOfMemory: Killed by SIGKILL"',
            [],
            [],
            Failure("OutOfMemory", "OutOfMemory: Killed by SIGKILL"),
        ),
        (NO_CHANNEL, [], [], Failure("BadData", NO_CHANNEL)),
        (EXIT_1.format(""), [START, failure("BadData")], [], Failure("BadData", "message of the job")),
        (EXIT_1.format(""), SIBLINGS, [], Failure("OutOfMemory", "message of the job")),
        (EXIT_1.format(""), [START, failure("OutOfMemory"), START], ["ValueError"], Failure("Error", "ValueError")),
        (EXIT_1.format("x"), [START, failure("NoSuchClass")], [], Failure("Error", "x")),
        (NO_CAPACITY_TEXT, [], [], Failure("Capacity", NO_CAPACITY_TEXT)),
    ],
)
def test_every_failure_has_its_class_and_message(
    reason: str, events: list[Event], log_tail: list[str], expected: Failure
) -> None:
    assert failure_of(failed(reason), events, log_tail) == expected
    assert expected.failure_class in FAILURE_CLASSES


def test_a_kill_takes_precedence_over_the_plain_error_of_a_sibling_process() -> None:
    reason = 'x\nExitCode 1\nExtraInfo "Killed by SIGKILL"\nErrorMessage "Error: Connection closed by peer"'
    assert failure_of(failed(reason), [START, failure("Error")], []) == Failure("Killed", "Killed by SIGKILL")
    assert failure_of(failed(reason), [START, failure("BadData")], []) == Failure("BadData", "message of the job")


def test_a_stop_by_the_service_takes_precedence_over_the_failure_event() -> None:
    stopped = {"TrainingJobStatus": "Stopped", "SecondaryStatus": "Stopped", "FailureReason": ""}
    assert failure_of(stopped, [failure("Error")], []) == Failure("Stopped", "it was stopped")
    over_time = stopped | {
        "SecondaryStatus": "MaxRuntimeExceeded",
        "StoppingCondition": {"MaxRuntimeInSeconds": 9, "MaxWaitTimeInSeconds": 9},
    }
    limit = Failure("TimeLimit", "it ran longer than its limit of 9 seconds")
    assert failure_of(over_time, [failure("Killed")], []) == limit
    waited = failure_of(over_time | {"SecondaryStatus": "MaxWaitTimeExceeded"}, [], [])
    assert waited.failure_class == "TimeLimit"
    assert waited.message.startswith("it took longer than its limit of 9 seconds")


def test_the_service_describes_its_own_failure() -> None:
    recorded = Failure("BadData", "source '/x' does not exist.")
    description = {**failed("ClientError: text for others"), "Failure": recorded.record}
    assert failure_of(description, [START], ["MemoryError"], "/log") == replace(recorded, log_location="/log")
    assert service_failure({"TrainingJobStatus": "Completed"}) is None


def test_the_traceback_is_that_of_the_event_or_of_the_log() -> None:
    trace = [TRACEBACK, '  File "train.py", line 5, in <module>', "ValueError: no"]
    event = Event("failure", 1, 1.0, {"failure_class": "Error", "message": "no", "traceback": "\n".join(trace)})
    assert failure_of(failed(""), [event], ["other"]).traceback == "\n".join(trace)
    assert failure_of(failed(""), [], ["before", *trace, "after"]).traceback == "\n".join(trace)
    assert failure_of(failed(""), [], [*trace, *["step"] * 100]).traceback == "\n".join(trace)
    assert failure_of(failed(""), [], ["no traceback"]).traceback == ""


@pytest.mark.parametrize("end", ["", '"', '"\nCommand "/usr/bin/python train.py"', '"\nCommand "a", exit code: 1'])
def test_the_message_of_a_reason_is_the_last_line_of_its_error(end: str) -> None:
    reason = EXIT_1.format("Traceback:\nValueError: no such label").removesuffix('"') + end
    assert failure_of_reason(reason) == Failure("Error", "ValueError: no such label")
    assert failure_of_reason("") == Failure("Error", "")


@pytest.mark.parametrize(
    ("failure_class", "reason", "text"),
    [
        ("Error", "Traceback:\nValueError: no such label\n", "ValueError: no such label"),
        ("OutOfMemory", "OutOfMemory: Killed by SIGKILL", "OutOfMemory: Killed by SIGKILL"),
        ("BadData", "no such file", "BadData: no such file"),
        ("Error", "", "Error"),
    ],
)
def test_a_failure_names_its_class_once(failure_class: str, reason: str, text: str) -> None:
    assert Failure(failure_class, reason).text == text


def test_without_a_reason_the_last_log_line_is_the_reason() -> None:
    assert failure_of(failed(""), [], ["a", "b"]) == Failure("Error", "b")
    assert failure_of(failed(""), [], []) == Failure("Error", "")


def test_a_vanished_job_has_failed_and_keeps_its_last_known_fields() -> None:
    created = datetime(2026, 11, 1, tzinfo=UTC)
    last_known = {"TrainingJobName": "demo", "TrainingJobStatus": "InProgress", "CreationTime": created}
    description = vanished_description("demo", last_known, "Job 'demo' does not exist.")
    assert description["CreationTime"] == created
    assert description["TrainingJobStatus"] == description["SecondaryStatus"] == "Failed"
    reason = "Job 'demo' does not exist, though it was created: it may have been deleted."
    assert failure_of(description, [START], ["MemoryError"]) == Failure("Vanished", reason)


def test_describing_a_vanished_job_again_changes_nothing() -> None:
    first = vanished_description("demo", None, "Job 'demo' does not exist.")
    assert vanished_description("demo", first, "Job 'demo' does not exist.") is first


def test_an_error_that_was_printed_in_pieces_is_put_together() -> None:
    """SageMaker's toolkit prints each piece that an unbuffered Python writes as a line."""
    pieces = ["Traceback (most recent call last):", 'File "/opt/ml/code/train.py", line 5, in <module>', "third", "("]
    pieces += ["^", "^", "IndexError", ":", "list index out of range", '"']
    reason = 'AlgorithmError: ExecuteUserScriptError:\nExitCode 1\nErrorMessage "' + "\n".join(pieces)
    assert failure_of_reason(reason).message == "IndexError: list index out of range"
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
