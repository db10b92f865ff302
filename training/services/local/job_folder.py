"""Folder of a local job: its files, its state and the lock of its supervisor."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO

from training.contract.errors import ServiceError
from training.services.local.disk_space import FULL_ERRORS
from training.state.locks import exclusive_lock, is_exclusively_locked
from training.state.regular_files import open_regular, read_regular

TAIL_BYTES = 64 * 1024
"""Number of bytes at the end of a log in which the reason for a failure is searched."""
MAX_LINE_CHARACTERS = 1_000_000
_MAX_JSON_BYTES = 64 * 1024 * 1024
"""Size of the largest state or request. A request has at most some hundred kilobytes."""

_SPARE_BYTES = 32 * 1024
"""Size of the reserved space. A state has at most 40 metrics and a reason of 1024 characters."""

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

    def request(self) -> dict[str, Any]:
        """Return the `CreateTrainingJob` request, unchanged. Raises `DamagedJob` if its file cannot be read."""
        return self._json(self.request_file, "TrainingJobName")

    def state(self) -> State:
        """Return the job's state. Raises `DamagedJob` if its file cannot be read."""
        return self._json(self.path / "state.json", "TrainingJobStatus")

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
        temporary = self.path / "state.json.new"
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
        """Replace the state atomically, in the reserved space if the disk is full, and free what is left of it."""
        try:
            self.write_state(state)
        except OSError as error:
            if error.errno not in FULL_ERRORS or not self._spare.exists():
                raise
            with self._spare.open("r+b") as spare:  # in place: these blocks are already on the disk
                spare.write(json.dumps(state).encode())
            self._spare.replace(self.path / "state.json")
        else:
            self._spare.unlink(missing_ok=True)

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

    def lines(self) -> Iterator[str]:
        """Yield the log's lines without line ends. A line of more than `MAX_LINE_CHARACTERS` is yielded in parts."""
        if stream := self.open_log():
            with TextIOWrapper(stream, encoding="utf-8", errors="replace", newline="\n") as log:
                while line := log.readline(MAX_LINE_CHARACTERS):
                    yield line.rstrip("\n")

    def log_tail(self) -> list[str]:
        """Return the last lines of the log."""
        stream = self.open_log()
        if stream is None:
            return []
        with stream as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - TAIL_BYTES))
            return log.read(TAIL_BYTES).decode("utf-8", "replace").splitlines()

    def failure_text(self) -> str:
        """Return the content of `output/failure`, or an empty string if the script did not write it as a regular file.

        Only the first and the last 64 KiB of a long text are returned.
        """
        try:
            with open_regular(self.base / "output" / "failure") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(0)
                start = file.read(TAIL_BYTES)
                file.seek(max(TAIL_BYTES, size - TAIL_BYTES))
                return (start + file.read(TAIL_BYTES)).decode("utf-8", "replace")
        except OSError:
            return ""
