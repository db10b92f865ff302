"""Failure of a job: one value, from the exception in the job to the terminal.

The job reports its failure as an event. The local service records the failure of a job that reports none. Only
`failure_of_reason` reads SageMaker's FailureReason, and only `last_exception` reads tracebacks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, cast

from training.contract.events import FAILURE_CLASSES, Event
from training.contract.service import Description

OTHER = "Error"
"""Class of all failures that no other class describes."""
FAILURE: Final = "Failure"
"""Field of a description with `Failure.record`, in addition to SageMaker's fields."""
STOPPED_BY = {"MaxRuntimeExceeded": "TimeLimit", "MaxWaitTimeExceeded": "TimeLimit"}
_CLASS_LINES = 50
"""Lines at the end of a log that are searched for the class of a failure."""


@dataclass(frozen=True)
class Failure:
    """Failure of a job that ended without completing."""

    failure_class: str
    """One of `training.contract.events.FAILURE_CLASSES`."""
    message: str = ""
    """Message of the error, usually one line."""
    traceback: str = ""
    """Last traceback in the job's log, without the lines after the exception. Empty if the log has none."""
    log_location: str = ""
    """Path or address of the log; empty if the job has none."""

    @property
    def is_stop(self) -> bool:
        """True if somebody stopped the job."""
        return self.failure_class == "Stopped"

    @property
    def text(self) -> str:
        """Class and last line of the message, such as `BadData: no such file`.

        The class is left out if it is `Error`, or if the line already begins with it.
        """
        line = next((line for line in reversed(self.message.splitlines()) if line.strip()), "").strip()
        names_class = line.startswith(self.failure_class) or self.failure_class == OTHER
        return line if line and names_class else f"{self.failure_class}: {line}" if line else self.failure_class

    @property
    def record(self) -> dict[str, str]:
        """Class and message as JSON. The rest is in the log."""
        return {"failure_class": self.failure_class, "message": self.message}


def failure_of(
    description: Description, events: Iterable[Event], log_tail: Sequence[str], log_location: str = ""
) -> Failure:
    """Return the failure of a job that ended without completing.

    Sources in order of precedence: the action of the service, the job's failure event, the exit code, the log.
    """
    if description["TrainingJobStatus"] == "Stopped":
        status = str(description["SecondaryStatus"])
        return Failure(STOPPED_BY.get(status, "Stopped"), _stop_reason(status, description), log_location=log_location)
    failure, event = service_failure(description) or Failure(OTHER), _failure_event(events)
    if event is None and failure.failure_class == OTHER:
        failure_class = class_of("\n".join(log_tail[-_CLASS_LINES:])) or OTHER
        failure = replace(failure, failure_class=failure_class, message=failure.message or "".join(log_tail[-1:]))
    # A sibling process may have been killed. The others report only that they lost the connection to it.
    if event is not None and (event.fields["failure_class"] != OTHER or failure.failure_class == OTHER):
        message = str(event.fields.get("message") or failure.message)
        failure = Failure(str(event.fields["failure_class"]), message)
    reported = str(event.fields.get("traceback") or "") if event else ""
    traceback = "\n".join(last_traceback(reported.splitlines() if reported else log_tail))
    return replace(failure, traceback=traceback, log_location=log_location)


def service_failure(description: Description) -> Failure | None:
    """Return the failure that a service describes; None for a job that has not failed."""
    if record := description.get(FAILURE):
        return Failure(**record)
    reason = str(description.get("FailureReason", ""))
    return failure_of_reason(reason) if reason else None


def _stop_reason(status: str, description: Description) -> str:
    limits = description.get("StoppingCondition", {})
    if status == "MaxRuntimeExceeded":
        return f"it ran longer than its limit of {limits['MaxRuntimeInSeconds']} seconds"
    if status == "MaxWaitTimeExceeded":
        limit = limits["MaxWaitTimeInSeconds"]
        return f"it took longer than its limit of {limit} seconds, including the wait for instances"
    return "it was stopped" if status == "Stopped" else status


def _failure_event(events: Iterable[Event]) -> Event | None:
    """Return the most specific failure event of the job's last start.

    If one of several processes fails, the others fail too and report plain errors.
    """
    failures: list[Event] = []
    for event in events:
        if event.kind == "start":
            failures = []
        elif event.kind == "failure" and event.fields.get("failure_class") in FAILURE_CLASSES:
            failures.append(event)
    specific = [event for event in failures if event.fields["failure_class"] != OTHER]
    return next(iter(specific or failures), None)


def lacks_capacity(description: Description) -> bool:
    """Return whether a job ended because the service had no instances for it, and so cost nothing.

    SageMaker then reports the status Failed and a reason such as "CapacityError: Unable to provision requested ML
    compute capacity. Please retry using a different ML instance type." (DIAGNijmegen/rse-grand-challenge#2631).
    """
    failure = service_failure(description) if description["TrainingJobStatus"] == "Failed" else None
    has_run = "TrainingStartTime" in description or bool(description.get("BillableTimeInSeconds"))
    return failure is not None and failure.failure_class == "Capacity" and not has_run


def vanished_description(name: str, known: Description | None, message: str) -> Description:
    """Return the description of a job that no longer exists at its service: failed, its other fields as last known."""
    failure = Failure("Vanished", f"{message.rstrip('.')}, though it was created: it may have been deleted.")
    if known and known.get(FAILURE) == failure.record:
        return known
    now = datetime.now(UTC)
    new = {"TrainingJobName": name, "CreationTime": now, "LastModifiedTime": now, "SecondaryStatusTransitions": []}
    failed = {"TrainingJobStatus": "Failed", "SecondaryStatus": "Failed"}
    failed_as = {"FailureReason": failure.message, FAILURE: failure.record}
    return cast(Description, {**(known or new), **failed, **failed_as})


# Text of SageMaker and of programs, as classes and messages.

# The first match wins. OutOfMemory precedes Killed, because a process that runs out of memory may also be killed.
_CLASS_PATTERNS = (
    ("OutOfMemory", r"OutOfMemory|out of memory|can(?:no|')t allocate memory|\bMemoryError\b|std::bad_alloc"),
    ("DiskFull", r"DiskFull|No space left on device|Disk quota exceeded"),
    ("Capacity", r"^CapacityError\b"),
    ("BadData", r"^ClientError: (source|channel) |Data download failed"),
    ("Diverged", r"\bDiverged: the \w+ loss is "),
    ("Killed", r"\bKilled( by|:)|\bSIGKILL\b"),
)
_PROSE = re.compile(r'^(AlgorithmError|ExitCode \S+|ExtraInfo ".*|ErrorMessage ".*)', re.MULTILINE)
_KILLED = re.compile(r'^ExtraInfo "(.+)"$', re.MULTILINE)
_MESSAGE = re.compile(r'^ErrorMessage "(.*?)"?\s*(?:^Command ".*)?\Z', re.MULTILINE | re.DOTALL)


def class_of(text: str) -> str | None:
    """Return the failure class that a text names, or None."""
    return next((name for name, pattern in _CLASS_PATTERNS if re.search(pattern, text, re.MULTILINE)), None)


def failure_of_reason(reason: str) -> Failure:
    """Return the failure in SageMaker's FailureReason.

    SageMaker's toolkit writes `ExitCode 1`, `ExtraInfo "..."`, `ErrorMessage "..."` and `Command "..."`, each on a new
    line. The message is the signal that killed the job, or else the last line of the error message.
    """
    killed, message = _KILLED.search(reason), _MESSAGE.search(reason)
    lines = [line for line in (message[1] if message else reason).splitlines() if line.strip()]
    last_line = "".join(repair_last_traceback(lines)[-1:])
    return Failure(class_of(reason) or OTHER, killed[1] if killed else last_line)


IMPORT_ERRORS = frozenset({"ModuleNotFoundError", "ImportError", "SyntaxError", "IndentationError", "TabError"})
"""Exceptions of programs that cannot be read or imported."""
_WRAPPERS = frozenset(
    {"ChildFailedError", "CalledProcessError", "ProcessRaisedException", "ProcessExitedException", "RemoteTraceback"}
)
"""Exceptions with which launchers report that another process failed. The cause is printed before or behind them."""
TRACEBACK = "Traceback (most recent call last):"
_PREFIX = re.compile(r"^(?:\[(?:default|rank)?\d+\]:|\[1,\w+:\d+(?:,[\w-]+)?\]<std(?:out|err)>:) ?")
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_EXCEPTION = re.compile(r"((?:[A-Za-z_]\w*\.)*([A-Z]\w*))(?::(?: (.*))?)?")
_PRINTED_EXCEPTION = re.compile(
    r"^(?!File\b)(?P<name>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?=\n?:|$)|(?:[A-Za-z_]\w*\.)+\w+(?=: ))"
    r"(?:\n?:\s?(?P<message>.*))?$",
    re.MULTILINE,
)
"""Class and message of an exception, also if the class, the colon and the message are on lines of their own."""
_FRAME = re.compile(r'\s*(?:\| )?\s+File ".+", line \d+(?:, in (.+))?')
_LINES_OF_FRAME = 12
"""Lines from a frame to the exception: the source, possibly over several lines, its marks and suggestions."""
_LINES_AT_END = 80
"""Most lines after an exception of which a program died: the reports of launchers and of other processes."""


@dataclass(frozen=True, kw_only=True)
class LastException:
    """Exception that ended a program."""

    name: str
    """Class, without its module."""
    message: str
    """First line of the message."""
    is_at_import: bool
    """True if the program could not be read or imported."""
    traceback: Sequence[str]
    """Lines of its traceback, up to the exception."""

    def __str__(self) -> str:
        return f"{self.name}: {self.message}" if self.message else self.name


def last_exception(lines: Sequence[str]) -> LastException | None:
    """Return the exception at the end of a program's output; None if the output does not end with a traceback.

    A name that does not exist counts as an error of the import if a module used it outside any function.
    """
    plain = [_PREFIX.sub("", _ESCAPE.sub("", line.rpartition("\r")[2])) for line in lines]
    for at in range(len(plain) - 1, max(-1, len(plain) - 1 - _LINES_AT_END), -1):
        match = _EXCEPTION.fullmatch(plain[at].rstrip())
        frame = _frame_before(plain, at) if match and match[2] not in _WRAPPERS else None
        if match and frame:
            name, function, start = match[2], frame[1], at
            is_at_import = name in IMPORT_ERRORS or (name == "NameError" and function == "<module>")
            while start > 0 and plain[start - 1].startswith((" ", "\t")):
                start -= 1
            if start > 0 and plain[start - 1].strip().endswith(TRACEBACK):  # a syntax error has no heading
                start -= 1
            return LastException(
                name=name,
                message=(match[3] or "").strip()[:500],
                is_at_import=is_at_import,
                traceback=plain[start : at + 1],
            )
    return None


def _frame_before(lines: Sequence[str], at: int) -> re.Match[str] | None:
    """Return the innermost frame of the traceback whose exception is at this line; None if there is no traceback."""
    for before in range(at - 1, max(-1, at - 1 - _LINES_OF_FRAME), -1):
        if match := _FRAME.fullmatch(lines[before].rstrip()):
            return match
        if lines[before].strip() and not lines[before].startswith((" ", "\t")):
            return None
    return None


def error_output(lines: Sequence[str]) -> Sequence[str]:
    """Return the end of a program's output: from its last traceback on, or its last line."""
    starts = [at for at, line in enumerate(lines) if TRACEBACK in line]
    return lines[starts[-1] :] if starts else lines[-1:]


def last_traceback(lines: Sequence[str]) -> Sequence[str]:
    """Return the last traceback in a log, without the lines after the exception, or an empty text."""
    if exception := last_exception(lines):
        return exception.traceback
    output = error_output(lines)
    if not output or TRACEBACK not in output[0]:
        return ()
    end = next((at for at, line in enumerate(output[1:], 2) if not line.startswith((" ", "\t"))), len(output))
    return output[:end]


def repair_last_traceback(lines: Sequence[str]) -> list[str]:
    """Return the lines of a log with its last traceback repaired, if it was split.

    With unbuffered output, Python writes the frames, the marks below them, and the class, colon and message of the
    exception in separate calls. SageMaker's toolkit prints each chunk that it reads as lines of their own, without
    white space at the ends of the chunk. Here the frames are indented again, marks (`~^`) are dropped, and the class
    and the first line of the message are joined.
    """
    start = next((at for at in range(len(lines), 0, -1) if lines[at - 1].strip().endswith(TRACEBACK)), len(lines))
    text = "\n".join(line.rstrip() for line in lines[start:])
    exception = _PRINTED_EXCEPTION.search(text)
    before = text[: exception.start()].splitlines() if exception else []
    if exception is None or not ("\n" in exception[0] or any(line[:1].strip() for line in before)):
        return list(lines)
    frames = [_indented(line) for line in before if line.strip(" \t~^")]
    name, message = exception["name"], (exception["message"] or "").strip()
    rest = lines[start + text.count("\n", 0, exception.end()) + 1 :]
    return [*lines[:start], *frames, f"{name}: {message}" if message else name, *rest]


def _indented(line: str) -> str:
    if line.startswith((" ", "\t")):
        return line
    return f"  {line}" if line.startswith("File ") else f"    {line}"
