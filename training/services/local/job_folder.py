"""The folder of a local job: what lies where, and whether somebody looks after it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.state.locks import exclusive_lock, is_exclusively_locked

TAIL_BYTES = 64 * 1024
"""How much of the end of a log is searched for a reason."""

State = dict[str, Any]
"""The part of a Description that changes, with times in seconds since the epoch, and `SupervisorPid`."""


@dataclass(frozen=True)
class JobFolder:
    """`<root>/jobs/<name>`: the supervisor alone writes in it, everybody reads."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def base(self) -> Path:
        """What `/opt/ml` is in a container."""
        return self.path / "opt" / "ml"

    @property
    def log(self) -> Path:
        """Standard output and error of the job."""
        return self.path / "log.txt"

    @property
    def request_file(self) -> Path:
        return self.path / "request.json"

    def request(self) -> dict[str, Any]:
        """The `CreateTrainingJob` request, as it came."""
        return dict(json.loads(self.request_file.read_bytes()))

    def state(self) -> State:
        return dict(json.loads((self.path / "state.json").read_bytes()))

    def write_state(self, state: State) -> None:
        """Replace the state in one step: a reader sees the old one or the new one."""
        temporary = self.path / "state.json.new"
        temporary.write_text(json.dumps(state))
        temporary.replace(self.path / "state.json")

    def hold(self) -> int:
        """Become the supervisor for as long as this process lives; the kernel lets go when it dies, however it dies."""
        return exclusive_lock(self.path / "supervisor.lock")

    def is_supervised(self) -> bool:
        """Return whether a supervisor lives; several may ask at once, for the lock asked for is a shared one."""
        return is_exclusively_locked(self.path / "supervisor.lock")

    def lines(self) -> Iterator[str]:
        """The log's lines, without their line ends; none when nothing was ever printed."""
        if self.log.exists():
            with self.log.open(encoding="utf-8", errors="replace", newline="\n") as log:
                yield from (line.rstrip("\n") for line in log)

    def log_tail(self) -> list[str]:
        """The last lines of the log."""
        if not self.log.exists():
            return []
        with self.log.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - TAIL_BYTES))
            return log.read().decode("utf-8", "replace").splitlines()

    def failure_text(self) -> str:
        """What the script left in `output/failure`, or nothing."""
        try:
            return (self.base / "output" / "failure").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
