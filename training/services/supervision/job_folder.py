"""Folder of a local job: its files, its state as `describe` returns it, its supervisor's lock, and its log's times.

The lines that a script prints have no times. Therefore marks of (time, log size in bytes) are written while the job
runs. They give each line the time at which it first appeared, the same for every reader. Standard library only.
"""

from __future__ import annotations

import bisect
import contextlib
import errno
import json
import os
import struct
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, cast

from state.locks import exclusive_lock, is_exclusively_locked
from state.regular_files import open_regular, read_regular
from training.contract.errors import ServiceError
from training.contract.failures import FAILURE, Failure
from training.contract.service import Request
from training.services.supervision.disk import FULL_ERRORS

TAIL_BYTES = 64 * 1024
"""Number of bytes at the end of a log in which the reason for a failure is searched."""
_MAX_JSON_BYTES = 64 * 1024 * 1024
"""Size of the largest state or request. A request has at most some hundred kilobytes."""

_SPARE_BYTES = 32 * 1024
"""Size of the reserved space: a state has some dozen metrics, and a reason and a message of 1024 characters."""

MAX_REASON_CHARACTERS = 1024
"""Length of the longest FailureReason that the API allows."""

TERMINAL = {"Completed": "Completed", "Failed": "Failed", "Stopped": "Stopped", "MaxRuntimeExceeded": "Stopped"}
"""Final secondary statuses, each with the status that it implies."""

MARK = struct.Struct("<dQ")
INTERVAL_SECONDS = 0.2
ALIVE_SECONDS = 5.0
"""Interval at which a supervisor shows that it is alive, by the time of the file with the marks."""
_MAX_MARKS_BYTES = 2**30
"""Size of the marks of 155 days."""

State = dict[str, Any]
"""The fields of a Description that change, with times in seconds since the epoch, and `SupervisorPid`."""


class DamagedJob(ServiceError):
    """A file of the job's folder was changed or cut off, for example by a full disk."""


@dataclass(frozen=True)
class JobFolder:
    """The folder `<root>/jobs/<name>`. Only the job's supervisor writes to it; any process may read it."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def base(self) -> Path:
        """Folder that stands for `/opt/ml` in a container."""
        return self.path / "opt" / "ml"

    @property
    def log(self) -> Path:
        """Log file: standard output and standard error of the job."""
        return self.path / "log.txt"

    @property
    def request_file(self) -> Path:
        return self.path / "request.json"

    def request(self) -> Request:
        """Return the `CreateTrainingJob` request, unchanged. Raises `DamagedJob` if its file cannot be read."""
        return cast(Request, self._json(self.request_file, "TrainingJobName"))

    def state(self) -> State:
        """Return the job's state. Raises `DamagedJob` if its file cannot be read."""
        file = self.path / "state.json"
        try:
            return self._json(file, "TrainingJobStatus")
        except DamagedJob as error:
            if getattr(error.__cause__, "errno", 0) != errno.ESTALE:
                raise
            return self._json(file, "TrainingJobStatus")  # it was replaced on a network file system while it was read

    def _json(self, path: Path, required: str) -> dict[str, Any]:
        """Return a JSON object that has the field `required`. Raises `DamagedJob`, or FileNotFoundError."""
        try:
            content = json.loads(read_regular(path, _MAX_JSON_BYTES))
        except FileNotFoundError:
            raise
        except (OSError, ValueError, RecursionError) as error:
            reason = getattr(error, "strerror", None) or "it is not JSON"
            raise DamagedJob(f"{path} is damaged: {reason}") from error
        if not isinstance(content, dict) or required not in content:
            raise DamagedJob(f"{path} is damaged: it has no field {required}")
        return content

    def write_state(self, state: State) -> None:
        """Replace the state atomically: a reader sees either the old state or the new one. Raises OSError."""
        temporary = self.path / f"state.json.new-{os.getpid()}"
        try:
            temporary.write_text(json.dumps(state))
            temporary.replace(self.path / "state.json")
        except OSError:
            temporary.unlink(missing_ok=True)
            raise

    def reserve(self) -> None:
        """Reserve the space for the final state, which must be written even if the disk is full. Raises OSError."""
        self._spare.write_bytes(b"\n" * _SPARE_BYTES)

    def write_final_state(self, state: State) -> None:
        """Replace the state atomically, after the reserved space is freed for it."""
        self._spare.unlink(missing_ok=True)
        self.write_state(state)

    @property
    def _spare(self) -> Path:
        return self.path / "spare"

    def lock_for_supervisor(self) -> int:
        """Hold the supervisor's lock until this process exits. The kernel releases it however the process ends."""
        return exclusive_lock(self.path / "supervisor.lock")

    def is_supervised(self) -> bool:
        """Return whether the job's supervisor is alive. Several processes may check at the same time."""
        try:
            return is_exclusively_locked(self.path / "supervisor.lock")
        except FileNotFoundError:  # deleted while the job ran
            return False

    def open_log(self) -> BinaryIO | None:
        """Open the log, or return None before the job has written one. Raises `DamagedJob` for another kind of file."""
        try:
            return open_regular(self.log)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DamagedJob(f"{self.log} is damaged: {error.strerror}") from error

    def log_tail(self) -> list[str]:
        stream = self.open_log()
        if stream is None:
            return []
        with stream as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - TAIL_BYTES))
            return log.read(TAIL_BYTES).decode("utf-8", "replace").splitlines()

    def last_sign(self) -> float:
        """Return the time until which the job's supervisor was certainly alive, within `ALIVE_SECONDS`."""
        times = [path.stat().st_mtime for path in (self.log, marks_file(self.log)) if path.exists()]
        return max([float(self.state()["LastModifiedTime"]), *times])

    def failure_text(self) -> str:
        """Return the content of `output/failure`; empty if the script did not write it as a file of usual size."""
        try:
            return read_regular(self.base / "output" / "failure", _MAX_JSON_BYTES).decode("utf-8", "replace")
        except OSError:
            return ""


def first_state(supervisor_pid: int) -> State:
    now = time.time()
    state: State = {"SupervisorPid": supervisor_pid, "CreationTime": now, "SecondaryStatusTransitions": []}
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
    started: float = state["AttemptStartTime" if "AttemptStartTime" in state else "TrainingStartTime"]
    seconds = max(0.0, now - started) + state.get("EarlierSeconds", 0.0)
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

    @property
    def began(self) -> bool:
        """True if an earlier attempt of the job was billed."""
        return "TrainingStartTime" in self._state

    def restart(self, lost_at: float, started: float) -> None:
        """Record that the attempt before was lost, and that a new one is billed from `started` on, both since epoch."""
        if self._state["SecondaryStatus"] != "Interrupted":
            self._state = with_transition(self._state, "Interrupted", "The allocation ended", lost_at)
        earlier = with_billing(self._state, lost_at)["BillableSecondsExact"]
        self._state |= {"EarlierSeconds": earlier, "AttemptStartTime": started}
        self._write()

    def enter(self, secondary_status: str, message: str, at: float | None = None) -> None:
        """Record a transition that does not end the job. It is not written while the disk is full."""
        # The clocks of two machines may differ.
        now = max(at, self._state["SecondaryStatusTransitions"][-1]["StartTime"]) if at else time.time()
        if secondary_status == "Downloading":
            self._state = {"TrainingStartTime": now} | self._state
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

    def _write(self) -> None:
        try:
            self._folder.write_state(self._state)
        except OSError as error:
            if error.errno not in FULL_ERRORS:
                raise

    def add(self, field: str, value: Any) -> None:
        """Add a field to the job's description. The next transition writes it."""
        self._state = self._state | {field: value}

    def end_billing(self) -> None:
        """End billing now. `end` writes it to disk."""
        self._state = with_billing(self._state, time.time())

    def fail(self, failure: Failure, reason: str) -> None:
        """Record that the job failed, and end billing if it has not ended. `reason` has SageMaker's form."""
        if "TrainingEndTime" not in self._state:
            self.end_billing()
        self.end("Failed", "Training job failed", **failure_fields(failure, reason))

    def end(self, secondary_status: str, message: str, **fields: Any) -> None:
        """Record the end of the job. Call `end_billing` first. `fields` are added to the job's description."""
        now = self._state.get("TrainingEndTime", time.time())
        self._state = with_transition(self._state | fields, secondary_status, message, now)
        self._folder.write_final_state(self._state)


def failure_fields(failure: Failure, reason: str) -> State:
    """Return a failure as fields of a state: in SageMaker's form, and as the value itself."""
    record = replace(failure, message=failure.message[:MAX_REASON_CHARACTERS]).record
    return {"FailureReason": reason[:MAX_REASON_CHARACTERS], FAILURE: record}


class LogMarker:
    """Writer of a mark each time the log has grown."""

    def __init__(self, log: Path, is_ours: Callable[[], bool] = lambda: True) -> None:
        self._log, self._marks, self._bytes, self._is_ours = log, marks_file(log), 0, is_ours
        self._shown = time.monotonic()
        with contextlib.suppress(OSError):  # a full disk
            self._marks.touch()

    def mark(self) -> None:
        """Write a mark if the log has grown. Never raises OSError: a full disk must not end the job.

        Raises SystemExit if the job is no longer ours.
        """
        with contextlib.suppress(OSError):
            if time.monotonic() - self._shown > ALIVE_SECONDS:
                if not self._is_ours():
                    sys.exit("The job has been started again elsewhere.")
                os.utime(self._marks, follow_symlinks=False)
                self._shown = time.monotonic()
            size = self._log.stat().st_size
            if size > self._bytes:
                # A script may have replaced the file by a pipe, which would block.
                flags = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
                with os.fdopen(os.open(self._marks, flags), "ab") as marks:
                    marks.write(MARK.pack(time.time(), size))
                self._bytes = size


def marks_file(log: Path) -> Path:
    return log.with_name("log-times.bin")


class LogTimes:
    """Reader of a log's marks."""

    def __init__(self, log: Path) -> None:
        file = marks_file(log)
        self._content = None
        with contextlib.suppress(OSError):  # a damaged file is like a missing one
            self._content = read_regular(file, _MAX_MARKS_BYTES)

    @property
    def marked_bytes(self) -> int | None:
        """Number of bytes of the log whose time is known; None for a log without marks."""
        if self._content is None:
            return None
        return self._mark(len(self) - 1)[1] if len(self) else 0

    def at(self, ends: Iterable[int], otherwise: float) -> list[float]:
        """Return the times of the lines whose line ends are at these byte positions, in seconds since the epoch.

        Lines after the last mark get the time `otherwise`.
        """
        indexes = (bisect.bisect_left(range(len(self)), end, key=lambda number: self._mark(number)[1]) for end in ends)
        return [self._mark(index)[0] if index < len(self) else otherwise for index in indexes]

    def __len__(self) -> int:
        return len(self._content or b"") // MARK.size

    def _mark(self, number: int) -> tuple[float, int]:
        time, size = MARK.unpack_from(self._content or b"", number * MARK.size)
        return time, size
