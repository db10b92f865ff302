"""One server process and its folder: start, watch and stop it.

The server holds `server.lock` while it runs, and the kernel releases the lock when it ends. So a different process that
reuses the process id is never mistaken for the server.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from training.contract.errors import ServiceError
from training.contract.retry import RetryPolicy
from training.state.locks import exclusive_lock, is_exclusively_locked
from training.state.own_process import own_process

END_SECONDS = 15.0
"""Time for a server to stop by itself before it is killed."""
START_SECONDS = 120.0
"""Time for a server to write its process id, which it does once its packages are imported."""
TAIL_BYTES = 8192
TAIL_LINES = 5


@dataclass(frozen=True)
class ServerFolder:
    """Folder of one server."""

    path: Path

    @property
    def log(self) -> Path:
        """File with the server's output."""
        return self.path / "log.txt"

    @property
    def state_file(self) -> Path:
        """File with the server's model and lifetime, as JSON."""
        return self.path / "state.json"

    def state(self) -> dict[str, Any]:
        """Return the content of the state file; empty if it is missing or incomplete."""
        return self._read(self.state_file.name)

    def write_state(self, state: Mapping[str, Any]) -> None:
        """Replace the state in one step."""
        fresh = self.path / "state.json.new"
        fresh.write_text(json.dumps(state))
        fresh.replace(self.state_file)

    def address(self) -> str | None:
        """Return the server's address; None until it listens."""
        return self._read("address.json").get("address")

    def _read(self, name: str) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError, TypeError):
            return dict(json.loads((self.path / name).read_bytes()))
        return {}

    def start(self, options: Sequence[str]) -> None:
        """Start the server. It inherits the lock, so it counts as alive from the beginning."""
        lock = exclusive_lock(self.path / "server.lock")
        words = ["--address", str(self.path / "address.json"), *options]
        variables = os.environ | {"PYTHONUNBUFFERED": "1", "HF_HUB_OFFLINE": "1"}
        try:
            with self.log.open("ab") as log:
                process = subprocess.Popen(
                    **own_process("models.server", *words, environment=variables),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    pass_fds=[lock],
                )
        finally:
            os.close(lock)
        _reap(process)

    def is_alive(self) -> bool:
        """Return whether the server is running. Concurrent calls are safe."""
        try:
            return is_exclusively_locked(self.path / "server.lock")
        except FileNotFoundError:
            return False

    def answers(self) -> bool:
        """Return whether the server reports that its model is loaded."""
        address = self.address()
        if address is None:
            return False
        connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=30)
        try:
            connection.request("GET", "/ping")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def end(self) -> None:
        """Stop the server: SIGTERM, then SIGKILL after `END_SECONDS`. Return when it has ended."""
        number = self._process()
        if number is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process = os.pidfd_open(number)
            try:
                for sent in (signal.SIGTERM, signal.SIGKILL):
                    # Check again: if the server still runs, the process id was not reused before `pidfd_open`.
                    if self.is_alive():
                        signal.pidfd_send_signal(process, sent)
                    if self._has_ended(END_SECONDS):
                        return
            finally:
                os.close(process)

    def _process(self) -> int | None:
        """Return the server's process id; None if it has ended.

        The server writes the id itself, so it is known even if the command that started the server was killed.
        """
        for _ in _checks(START_SECONDS):
            if not self.is_alive():
                return None
            if number := self._read("address.json").get("pid"):
                return int(number)
        raise ServiceError(f"The server in {self.path} is running, but its process id is unknown: stop it by hand.")

    def _has_ended(self, seconds: float) -> bool:
        return any(not self.is_alive() for _ in _checks(seconds))

    def last_log_lines(self) -> str:
        """Return the last lines of the log, as one line."""
        with contextlib.suppress(OSError), self.log.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - TAIL_BYTES))
            lines = log.read().decode("utf-8", "replace").strip().splitlines()
            return " / ".join(line.strip() for line in lines[-TAIL_LINES:] if line.strip())
        return ""


def _checks(seconds: float) -> Iterator[float]:
    return RetryPolicy(first_pause_seconds=0.05, factor=1.0, total_seconds=seconds).attempts()


def _reap(process: subprocess.Popen[bytes]) -> None:
    """Wait for the process in a thread, so that it does not become a zombie while this command runs."""
    import threading

    threading.Thread(target=process.wait, daemon=True).start()
