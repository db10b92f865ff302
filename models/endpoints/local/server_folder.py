"""One server process and its folder: start, watch and stop it.

The server is the process whose arguments name the file `address.json` of the folder. So it is found even if the command
that started it was killed, and a different process that reuses its id is never mistaken for it.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from training.state.locks import held_locks
from training.state.own_process import own_process

SERVER = "models.server"
END_SECONDS = 15.0
"""Time for a server to stop by itself before it is killed."""
TAIL_LINES = 5


@dataclass(frozen=True)
class ServerFolder:
    """Folder of one server."""

    path: Path

    @property
    def log(self) -> Path:
        """File with the server's output."""
        return self.path / "log.txt"

    def state(self) -> dict[str, Any]:
        """Return what `write_state` wrote; empty if it is missing or incomplete."""
        return self._read("state.json")

    def write_state(self, state: Mapping[str, Any]) -> None:
        """Record the model and the options."""
        (self.path / "state.json").write_text(json.dumps(state))

    def address(self) -> str | None:
        """Return the server's address; None until it listens."""
        return self._read(self._address_file.name).get("address")

    def _read(self, name: str) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError, TypeError):
            return dict(json.loads((self.path / name).read_bytes()))
        return {}

    def start(self, options: Sequence[str]) -> None:
        """Start the server.

        It inherits the shared locks of this process, so that nothing deletes the model's folder while it is used.
        """
        variables = os.environ | {"PYTHONUNBUFFERED": "1", "HF_HUB_OFFLINE": "1"}
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                **own_process(SERVER, "--address", str(self._address_file), *options, environment=variables),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=held_locks(),
            )
        threading.Thread(target=process.wait, daemon=True).start()  # reaps the server if it ends first

    def is_alive(self) -> bool:
        """Return whether the server is running."""
        return self._process() is not None

    def _process(self) -> psutil.Process | None:
        own = self._address_file.resolve()
        for process in psutil.process_iter(["cmdline"]):
            words = process.info["cmdline"] or []
            files = (Path(word).resolve() for word in words if word.endswith(own.name))
            if SERVER in words and own in files:
                return process
        return None

    @property
    def _address_file(self) -> Path:
        return self.path / "address.json"

    def answers(self) -> bool:
        """Return whether the server reports that its model is loaded."""
        if (address := self.address()) is None:
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
        if (process := self._process()) is None:
            return
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
            try:
                process.wait(END_SECONDS)
            except psutil.TimeoutExpired:
                process.kill()
                process.wait(END_SECONDS)

    def delete(self) -> None:
        """Stop the server and delete its folder."""
        self.end()
        shutil.rmtree(self.path, ignore_errors=True)

    def last_log_lines(self) -> str:
        """Return the last lines of the log, as one line."""
        with contextlib.suppress(OSError):
            lines = self.log.read_text("utf-8", "replace").strip().splitlines()
            return " / ".join(line.strip() for line in lines[-TAIL_LINES:] if line.strip())
        return ""
