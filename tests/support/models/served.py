"""`mlflow models serve` in a real process, and requests to it over HTTP."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.fork_server.interpreter import INTERPRETER
from tests.support.models.place import Place
from tests.support.ports import free_port

START_SECONDS = 600


def variables(place: Place) -> dict[str, str]:
    """Return the environment of a shell in which a user types `mlflow`, without our packages on the path."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    path = f"{Path(INTERPRETER).parent}{os.pathsep}{os.environ['PATH']}"
    own = {"MLFLOW_TRACKING_URI": str(place.client.tracking_uri), "MLFLOW_DISABLE_TELEMETRY": "true", "PATH": path}
    return inherited | own


class Served:
    """A running server."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def is_up(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._url}/ping", timeout=2):
                return True
        except OSError:
            return False

    def __call__(self, body: object) -> tuple[int, Any]:
        """Return status and answer."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}/invocations", content, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)["predictions"]
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()


@contextmanager
def served(place: Place, uri: str) -> Iterator[Served]:
    """Serve a model with MLflow's own command, from another folder and without our packages on the path."""
    port = free_port()
    words = ["models", "serve", "-m", uri, "--env-manager", "local", "--port", str(port), "--workers", "1"]
    elsewhere = place.folder / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    with (place.folder / "served.log").open("wb") as log:
        process = subprocess.Popen(
            ["mlflow", *words], cwd=elsewhere, env=variables(place), stdout=log, stderr=log, start_new_session=True
        )
    try:
        answers, deadline = Served(port), time.monotonic() + START_SECONDS
        while not answers.is_up():
            assert process.poll() is None, (place.folder / "served.log").read_text()
            assert time.monotonic() < deadline, (place.folder / "served.log").read_text()
            time.sleep(0.2)
        yield answers
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
