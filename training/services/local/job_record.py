"""The course of a local job, as `describe` tells it. Standard library only."""

from __future__ import annotations

import time
from typing import Any

from training.services.local.job_folder import JobFolder, State

MAX_REASON_CHARACTERS = 1024
"""Limit of FailureReason in the API."""

TERMINAL = {"Completed": "Completed", "Failed": "Failed", "Stopped": "Stopped", "MaxRuntimeExceeded": "Stopped"}
"""Secondary status that ends a job to its status."""


def first_state(supervisor_pid: int) -> State:
    """Return the state of a job that has just been created."""
    now = time.time()
    state: State = {"SupervisorPid": supervisor_pid, "CreationTime": now}
    state |= {"SecondaryStatusTransitions": [], "FinalMetricDataList": []}
    return entered(state, "Starting", "Starting the training job", now)


def entered(state: State, secondary_status: str, message: str, now: float) -> State:
    """Return the state after a transition at `now` (seconds since the epoch)."""
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
    """A job that was asked to stop says so until it has ended, also while it uploads."""
    if secondary_status in TERMINAL:
        return TERMINAL[secondary_status]
    stopping = secondary_status == "Stopping" or state.get("TrainingJobStatus") == "Stopping"
    return "Stopping" if stopping else "InProgress"


def billed(state: State, now: float) -> State:
    """Return the state with what is billed until `now`: from the start of downloading; nothing before it."""
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
    """The state of one job, kept on disk by its supervisor."""

    def __init__(self, folder: JobFolder) -> None:
        self._folder = folder
        self._state = folder.state()

    def enter(self, secondary_status: str, message: str) -> None:
        """Note a transition that does not end the job."""
        now = time.time()
        if secondary_status == "Downloading":
            self._state |= {"TrainingStartTime": now}
        self._save(entered(self._state, secondary_status, message, now))

    def end_billing(self) -> float:
        """Note that the machine is free again, and return the time (seconds since the epoch); shown with the end."""
        now = time.time()
        self._state = billed(self._state, now)
        return now

    def fail(self, reason: str) -> None:
        """Note the end of a job that failed, its billing included."""
        self.end_billing()
        self.end("Failed", "Training job failed", FailureReason=reason[:MAX_REASON_CHARACTERS])

    def end(self, secondary_status: str, message: str, **fields: Any) -> None:
        """Note the end of the job, its billing ended before; `fields` are further fields of the description."""
        now = self._state.get("TrainingEndTime", time.time())
        self._save(entered(self._state | fields, secondary_status, message, now))

    def _save(self, state: State) -> None:
        self._state = state
        self._folder.write_state(state)
