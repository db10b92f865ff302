"""State of a local job and its transitions, as `describe` returns them. Standard library only."""

from __future__ import annotations

import time
from typing import Any

from training.services.local.disk_space import FULL_ERRORS
from training.services.local.job_folder import JobFolder, State

MAX_REASON_CHARACTERS = 1024
"""Length of the longest FailureReason that the API allows."""

TERMINAL = {"Completed": "Completed", "Failed": "Failed", "Stopped": "Stopped", "MaxRuntimeExceeded": "Stopped"}
"""Final secondary statuses, each with the status that it implies."""


def first_state(supervisor_pid: int) -> State:
    """Return the state of a newly created job."""
    now = time.time()
    state: State = {"SupervisorPid": supervisor_pid, "CreationTime": now}
    state |= {"SecondaryStatusTransitions": [], "FinalMetricDataList": []}
    return with_transition(state, "Starting", "Starting the training job", now)


def with_transition(state: State, secondary_status: str, message: str, now: float) -> State:
    """Return the state after a transition at `now`, in seconds since the epoch."""
    *earlier, last = [dict(each) for each in state["SecondaryStatusTransitions"]] or [{}]
    finished = [*earlier, {**last, "EndTime": now}] if last else []
    begun = {"Status": secondary_status, "StartTime": now, "StatusMessage": message}
    if secondary_status in TERMINAL:
        begun["EndTime"] = now
    return state | {
        "TrainingJobStatus": _status(state, secondary_status),
        "SecondaryStatus": secondary_status,
        "SecondaryStatusTransitions": [*finished, begun],
        "LastModifiedTime": now,
    }


def _status(state: State, secondary_status: str) -> str:
    """Return the job's status. A stopped job is `Stopping` until it has ended, even while it uploads its model."""
    if secondary_status in TERMINAL:
        return TERMINAL[secondary_status]
    stopping = secondary_status == "Stopping" or state.get("TrainingJobStatus") == "Stopping"
    return "Stopping" if stopping else "InProgress"


def with_billing(state: State, now: float) -> State:
    """Return the state with the seconds billed until `now`. Billing starts when the download starts."""
    if "TrainingStartTime" not in state:
        return state
    seconds = max(0.0, now - state["TrainingStartTime"])
    return state | {
        "TrainingEndTime": now,
        "TrainingTimeInSeconds": round(seconds),
        "BillableTimeInSeconds": round(seconds),
        "BillableSecondsExact": seconds,
    }


class Record:
    """The state of one job, which its supervisor writes to disk."""

    def __init__(self, folder: JobFolder) -> None:
        self._folder = folder
        self._state = folder.state()

    def enter(self, secondary_status: str, message: str) -> None:
        """Record a transition that does not end the job. It is not written while the disk is full."""
        now = time.time()
        if secondary_status == "Downloading":
            self._state |= {"TrainingStartTime": now}
        self._state = with_transition(self._state, secondary_status, message, now)
        self._write()

    def wait(self, message: str) -> None:
        """Record what the job waits for. A new message does not begin a new transition."""
        *earlier, last = self._state["SecondaryStatusTransitions"]
        if self._state["SecondaryStatus"] != "Pending":
            self.enter("Pending", message)
        elif last["StatusMessage"] != message:
            self._state |= {"SecondaryStatusTransitions": [*earlier, {**last, "StatusMessage": message}]}
            self._write()

    def warn(self, text: str) -> None:
        """Record a warning about the disk, or with an empty text that there is none."""
        if self._state.get("DiskWarning", "") != text:
            self._state |= {"DiskWarning": text}
            self._write()

    def _write(self) -> None:
        try:
            self._folder.write_state(self._state)
        except OSError as error:
            if error.errno not in FULL_ERRORS:
                raise

    def add(self, field: str, value: Any) -> None:
        """Add a field to the job's description. The next transition writes it."""
        self._state = self._state | {field: value}

    def end_billing(self) -> float:
        """End billing and return the current time, in seconds since the epoch. `end` writes it to disk."""
        now = time.time()
        self._state = with_billing(self._state, now)
        return now

    def fail(self, reason: str) -> None:
        """End billing and record that the job failed."""
        self.end_billing()
        self.end("Failed", "Training job failed", FailureReason=reason[:MAX_REASON_CHARACTERS])

    def end(self, secondary_status: str, message: str, **fields: Any) -> None:
        """Record the end of the job. Call `end_billing` first. `fields` are added to the job's description."""
        now = self._state.get("TrainingEndTime", time.time())
        self._state = with_transition(self._state | fields, secondary_status, message, now)
        self._folder.write_final_state(self._state)
