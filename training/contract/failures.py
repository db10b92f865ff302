"""Failure class and reason of a job, from its description, its events and its log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from training.contract.events import FAILURE_CLASSES, Event
from training.contract.exceptions import repair_last_traceback
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
    unknown = {"TrainingJobName": name, "CreationTime": now, "LastModifiedTime": now, "SecondaryStatusTransitions": []}
    reason = f"{message.rstrip('.')}, though it was created: it may have been deleted."
    failed = {"TrainingJobStatus": "Failed", "SecondaryStatus": "Failed", "FailureReason": reason}
    return known if known and known.get("FailureReason") == reason else {**unknown, **(known or {}), **failed}


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
