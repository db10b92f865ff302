"""Failure class and reason of a job, from its description, its events and its log, and the exception in its output."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from training.contract.events import FAILURE_CLASSES, Event
from training.contract.service import Description

# The first match wins. OutOfMemory precedes Killed, because a process that runs out of memory may also be killed.
REASON_PATTERNS = (
    ("Vanished", r"though it was created: it may have been deleted"),
    ("OutOfMemory", r"OutOfMemory|out of memory|can(?:no|')t allocate memory|\bMemoryError\b|std::bad_alloc"),
    ("DiskFull", r"DiskFull|No space left on device|Disk quota exceeded"),
    ("Capacity", r"^CapacityError\b"),
    ("BadData", r"^ClientError: (source|channel) |Data download failed"),
    ("Killed", r"\bKilled( by|:)|\bSIGKILL\b"),
)
OTHER = "Error"
"""Class of all failures that no other class describes."""
STOPPED_BY = {"MaxRuntimeExceeded": "TimeLimit", "MaxWaitTimeExceeded": "TimeLimit"}
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
_EXCEPTION_IN_LOWER_CASE = re.compile(r"(?:[A-Za-z_]\w*\.)+\w+: .*")
_FRAME = re.compile(r'\s*(?:\| )?\s+File ".+", line \d+(?:, in (.+))?')
_LINES_OF_FRAME = 12
"""Lines from a frame to the exception: the source, possibly over several lines, its marks and suggestions."""
_LINES_AT_END = 80
"""Most lines after an exception of which a program died: the reports of launchers and of other processes."""


def failure_of(description: Description, events: Iterable[Event], log_tail: Sequence[str]) -> tuple[str, str]:
    """Return the failure class (see `training.contract.events.FAILURE_CLASSES`) and reason of a failed job.

    Sources in order of precedence: the action of the service, the job's failure event, the exit code, the log.
    """
    if description["TrainingJobStatus"] == "Stopped":
        status = str(description["SecondaryStatus"])
        return STOPPED_BY.get(status, "Stopped"), _stop_reason(status, description)
    reason = str(description.get("FailureReason", ""))
    event = _failure_event(events)
    if event is not None:
        failure_class = str(event.fields.get("failure_class"))
        # A sibling process was killed. The others report only that they lost the connection to it.
        if failure_class == OTHER and (killed := _class_of(reason)) is not None:
            return killed, reason
        return failure_class, str(event.fields.get("message") or reason)
    return _class_of(reason) or _class_of("\n".join(log_tail)) or OTHER, reason or "".join(log_tail[-1:])


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


def _class_of(text: str) -> str | None:
    return next((name for name, pattern in REASON_PATTERNS if re.search(pattern, text, re.MULTILINE)), None)


def lacks_capacity(description: Description) -> bool:
    """Return whether a job ended because the service had no instances for it, and so cost nothing.

    SageMaker then reports the status Failed and a reason such as "CapacityError: Unable to provision requested ML
    compute capacity. Please retry using a different ML instance type." (DIAGNijmegen/rse-grand-challenge#2631).
    """
    return (
        description["TrainingJobStatus"] == "Failed"
        and re.match(r"CapacityError\b", str(description.get("FailureReason", ""))) is not None
        and "TrainingStartTime" not in description
        and not description.get("BillableTimeInSeconds")
    )


def one_line_reason(reason: str) -> str:
    """Return a failure reason as one line: the signal that killed the job, or else the last line, which is the error.

    The last line that a killed job printed does not explain the failure.
    """
    killed = re.search(r'^ExtraInfo "(.+)"$', reason, flags=re.MULTILINE)
    if killed:
        return killed[1]
    lines = [line for line in reason.strip().rstrip('"').splitlines() if line.strip()]
    return repair_last_traceback(lines)[-1] if lines else ""


def failure_text(failure_class: str, reason: str) -> str:
    """Return the class and the reason's line, such as `BadData: no such file`.

    The class is left out if it is `Error`, or if the line already begins with it.
    """
    line = one_line_reason(reason)
    names_class = line.startswith(failure_class) or failure_class == OTHER
    return line if line and names_class else f"{failure_class}: {line}" if line else failure_class


def vanished_description(name: str, known: Description | None, message: str) -> Description:
    """Return the description of a job that no longer exists at its service: failed, its other fields as last known."""
    now = datetime.now(UTC)
    reason = f"{message.rstrip('.')}, though it was created: it may have been deleted."
    if known and known.get("FailureReason") == reason:
        return known
    if known:
        return {**known, "TrainingJobStatus": "Failed", "SecondaryStatus": "Failed", "FailureReason": reason}
    return {
        "TrainingJobName": name,
        "CreationTime": now,
        "LastModifiedTime": now,
        "SecondaryStatusTransitions": [],
        "TrainingJobStatus": "Failed",
        "SecondaryStatus": "Failed",
        "FailureReason": reason,
    }


@dataclass(frozen=True, kw_only=True)
class LastException:
    """Exception that ended a program."""

    name: str
    """Class, without its module."""
    message: str
    """First line of the message."""
    is_at_import: bool
    """True if the program could not be read or imported."""

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
            name, function = match[2], frame[1]
            is_at_import = name in IMPORT_ERRORS or (name == "NameError" and function == "<module>")
            return LastException(name=name, message=(match[3] or "").strip()[:500], is_at_import=is_at_import)
    return None


def _frame_before(lines: Sequence[str], at: int) -> re.Match[str] | None:
    """Return the innermost frame of the traceback whose exception is at this line; None if there is no traceback."""
    for before in range(at - 1, max(-1, at - 1 - _LINES_OF_FRAME), -1):
        if match := _FRAME.fullmatch(lines[before].rstrip()):
            return match
        if lines[before].strip() and not lines[before].startswith((" ", "\t")):
            return None
    return None


def repair_last_traceback(lines: Sequence[str]) -> list[str]:
    """Return the lines of a log with its last traceback repaired, if it was split.

    With unbuffered output, Python writes the frames, the marks below them, and the class, colon and message of the
    exception in separate calls. SageMaker's toolkit prints each chunk that it reads as lines of their own, without
    white space at the ends of the chunk. Here the frames are indented again, marks (`~^`) are dropped, and the class
    and the first line of the message are joined.
    """
    starts = [at + 1 for at, line in enumerate(lines) if line.strip().endswith(TRACEBACK)]
    start = starts[-1] if starts else len(lines)
    unindented = [at for at in range(start, len(lines)) if lines[at].strip() and not lines[at].startswith((" ", "\t"))]
    for at in unindented:
        exception = _exception_lines(lines, at)
        if exception:
            if at == unindented[0] and len(exception) == 1:
                return list(lines)
            frames = [_indented(line) for line in lines[start:at] if line.strip(" \t~^")]
            return [*lines[:start], *frames, _joined(exception), *lines[at + len(exception) :]]
    return list(lines)


def _exception_lines(lines: Sequence[str], at: int) -> Sequence[str]:
    """Return the lines with the class and the message of the exception that begins here; empty if none does."""
    line = lines[at].strip()
    match = _EXCEPTION.fullmatch(line)
    if not match or line == "File":  # The beginning of a split frame, and no class.
        return lines[at : at + 1] if _EXCEPTION_IN_LOWER_CASE.fullmatch(line) else ()
    if match[3] is not None:
        return lines[at : at + 1]
    if line.endswith(":"):
        return lines[at : at + 2]
    following = lines[at + 1 : at + 3]
    if not following or not following[0].startswith(":"):
        return lines[at : at + 1]  # An exception without a message.
    # The colon may be alone, with the message on a third line.
    return lines[at : at + 2] if following[0][1:].strip() else lines[at : at + 3]


def _joined(exception: Sequence[str]) -> str:
    message = "".join(exception[1:]).removeprefix(":").strip()
    name = exception[0].strip()
    return f"{name.removesuffix(':')}: {message}" if message else name


def _indented(line: str) -> str:
    if line.startswith((" ", "\t")):
        return line
    return f"  {line}" if line.startswith("File ") else f"    {line}"
