"""Endpoints on this machine: implements `Endpoints` with server processes that outlive their commands.

endpoints/NAME/        one server: state.json, address.json, log.txt
endpoints/.NAME.lock   locked by the command that changes the endpoint
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from models.endpoints.protocol import Action, DeploymentPlan, EndpointSpec, EndpointState, refused
from models.server.access import read_token
from state.locks import held_lock, held_locks, lock_for_use
from state.own_process import own_process
from training.contract.errors import EndpointFailed, EndpointNotFound, EndpointTaken, nearest
from training.contract.price import Price
from training.contract.retry import RetryPolicy
from training.contract.service import Echo
from training.services.local.traits import TRAITS

PAUSE_SECONDS = 0.1
ANSWER_SECONDS = 600.0
"""Longest wait for one answer."""
SERVER, ADDRESS = "models.server", "address.json"
END_SECONDS = 15.0
"""Time for a server to stop by itself before it is killed."""
TAIL_LINES = 5


class LocalEndpoints:
    """Servers on this machine, under `home`. Any process can list, query and stop them."""

    def __init__(self, home: Path) -> None:
        self._home, self._root = home, home / "endpoints"

    def deploy(self, spec: EndpointSpec, echo: Echo) -> EndpointState:
        with self._locked(spec.name):
            server, started = self._server(spec.name), None
            is_kept = self._action(server, spec) == "keep"
            try:
                if is_kept:
                    echo(f"Endpoint {spec.name} already serves {spec.identity}")
                else:
                    server.delete()  # left behind by a server that ended
                    started = self._start(server, spec, echo)
                self._wait(server, spec, started)
            except BaseException:
                server.delete()
                raise
            return _state(spec.name, server)

    def plan(self, spec: EndpointSpec) -> DeploymentPlan:
        return DeploymentPlan(action=self._action(self._server(spec.name), spec))

    @staticmethod
    def _action(server: ServerFolder, spec: EndpointSpec) -> Action:
        """Return the effect on a server. Raises EndpointTaken for one that serves something else."""
        if not server.process():
            return "create"
        if differs := difference(server.read("state.json"), spec):
            raise EndpointTaken(f"endpoint {spec.name} {differs}: choose a different --endpoint, or undeploy it first.")
        return "keep"

    def _start(self, server: ServerFolder, spec: EndpointSpec, echo: Echo) -> subprocess.Popen[bytes]:
        server.path.mkdir(parents=True)
        # Written before the server reads the files, so that the next deploy notices files that change meanwhile.
        (server.path / "state.json").write_text(json.dumps({**record_of(spec), "created": time.time()}))
        options = ["--model", str(spec.model.resolve()), "--host", spec.host]
        options += ["--task", spec.task] if spec.task else []
        options += ["--precision", spec.precision] if spec.precision else []
        options += ["--evaluation", json.dumps(asdict(spec.evaluation))] if spec.run_id else []
        options += ["--token-file", str(spec.token_file)] if spec.token_file else []
        lock_for_use(self._home.resolve(), [spec.model.resolve()])
        echo(f"Starting endpoint {spec.name} with model {spec.model}")
        return server.start(options)

    @staticmethod
    def _wait(server: ServerFolder, spec: EndpointSpec, started: subprocess.Popen[bytes] | None) -> None:
        """Wait until the server answers. Raises `EndpointFailed` if it ends or takes too long."""
        policy = RetryPolicy(first_pause_seconds=PAUSE_SECONDS, factor=1.0, total_seconds=spec.wait_seconds)
        for _ in policy.attempts():
            if server.answers():
                return
            has_ended = started.poll() is not None if started else server.process() is None
            if has_ended:
                raise EndpointFailed(f"endpoint {spec.name} did not start: {server.failure_reason()}")
        limit = f"{spec.wait_seconds:.0f} s"
        raise EndpointFailed(f"endpoint {spec.name} did not answer within {limit}: {server.failure_reason()}")

    def price(self, machine: str) -> Price | None:
        return None

    def predict(self, name: str, body: bytes) -> bytes:
        server = self._existing(name)
        token_file = server.read("state.json").get("token_file")
        headers = {"Authorization": f"Bearer {read_token(Path(token_file))}"} if token_file else {}
        headers["Content-Type"] = "application/json"
        try:
            status, answer = server.request("POST", "/invocations", ANSWER_SECONDS, body=body, headers=headers)
        except (OSError, http.client.HTTPException) as error:
            state = _state(name, server)
            raise EndpointFailed(f"endpoint {name} is {state.status}: {state.reason or error}") from error
        if status == 200:
            return answer
        raise refused(name, status, answer.decode("utf-8", "replace"))

    def undeploy(self, name: str, echo: Echo) -> None:
        self._existing(name)
        with self._locked(name):
            self._server(name).delete()
        echo(f"{name}: deleted")

    def endpoints(self) -> list[EndpointState]:
        names = [path.name for path in self._root.glob("*") if not path.name.startswith(".")]
        states = [_state(name, self._server(name)) for name in names]
        return sorted(states, key=lambda state: state.created, reverse=True)

    def _server(self, name: str) -> ServerFolder:
        return ServerFolder(self._root / name)

    def _existing(self, name: str) -> ServerFolder:
        server = self._server(name)
        if not server.path.is_dir():
            known = [state.name for state in self.endpoints()]
            raise EndpointNotFound(
                f"local endpoint '{name}' does not exist.{nearest(name, known)} On AWS: --service sagemaker."
            )
        return server

    @contextlib.contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        """Lock the endpoint against other commands that change it."""
        lock = self._root / f".{name}.lock"
        with held_lock(lock):
            try:
                yield
            finally:
                lock.unlink(missing_ok=True)


@dataclass(frozen=True)
class ServerFolder:
    """One server process and its folder.

    The process is the one whose arguments name the folder's file `address.json`. So it is found even if the command
    that started it was killed, and a different process that reuses its id is never mistaken for it.
    """

    path: Path

    def read(self, name: str) -> dict[str, Any]:
        """Return the content of a file: `state.json` of the deployment, or `address.json` of a server that listens.

        It is empty if the file is missing or incomplete.
        """
        with contextlib.suppress(OSError, ValueError, TypeError):
            return dict(json.loads((self.path / name).read_bytes()))
        return {}

    def start(self, options: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start the server, and return its process.

        It inherits the shared locks of this process, so that nothing deletes the model's folder while it is used.
        """
        variables = os.environ | {"PYTHONUNBUFFERED": "1", "HF_HUB_OFFLINE": "1"}
        with (self.path / "log.txt").open("ab") as log:
            process = subprocess.Popen(
                **own_process(SERVER, "--address", str(self.path / ADDRESS), *options, environment=variables),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=held_locks(),
            )
        threading.Thread(target=process.wait, daemon=True).start()  # reaps the server if it ends first
        return process

    def process(self) -> psutil.Process | None:
        """Return the server's process; None if it has ended."""
        own = (self.path / ADDRESS).resolve()
        for process in psutil.process_iter(["cmdline"]):
            words = process.info["cmdline"] or []
            if SERVER in words and own in (Path(word).resolve() for word in words if word.endswith(ADDRESS)):
                return process
        return None

    def answers(self) -> bool:
        """Return whether the server reports that its model is loaded."""
        try:
            return self.request("GET", "/ping", 30)[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def request(self, method: str, path: str, timeout_seconds: float, **content: Any) -> tuple[int, bytes]:
        """Send a request, and return the status and the body of its answer. Raises OSError and HTTPException."""
        if (address := self.read(ADDRESS).get("address")) is None:
            raise ConnectionError("it does not listen yet")
        with contextlib.closing(
            http.client.HTTPConnection(urlsplit(address).netloc, timeout=timeout_seconds)
        ) as server:
            server.request(method, path, **content)
            response = server.getresponse()
            return response.status, response.read()

    def delete(self) -> None:
        """Stop the server, by SIGTERM and after `END_SECONDS` by SIGKILL, and delete its folder."""
        if process := self.process():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.terminate()
                try:
                    process.wait(END_SECONDS)
                except psutil.TimeoutExpired:
                    process.kill()
                    process.wait(END_SECONDS)
        shutil.rmtree(self.path, ignore_errors=True)

    def failure_reason(self) -> str:
        with contextlib.suppress(OSError):
            lines = (self.path / "log.txt").read_text("utf-8", "replace").strip().splitlines()[-TAIL_LINES:]
            if text := " / ".join(line.strip() for line in lines if line.strip()):
                return f"the last lines of its log are: {text}"
        return "its log is empty; the server may have been killed"


def record_of(spec: EndpointSpec) -> dict[str, Any]:
    """Return what a later deploy compares: the model, the files of its folder and the options.

    For the model of a run, the files are omitted, because a run's model never changes. The size and modification time
    of other files reveal new weights without reading gigabytes.
    """
    files = {path.name: path.stat() for path in spec.model.iterdir() if path.is_file()} if not spec.run_id else {}
    return {
        "identity": spec.identity,
        "files": {name: [status.st_size, status.st_mtime_ns] for name, status in files.items()},
        "precision": spec.precision or "auto",
        "max_length": spec.evaluation.max_length,
        "host": spec.host,
        "token_file": str(spec.token_file) if spec.token_file else None,
        "token_changed": spec.token_file.stat().st_mtime_ns if spec.token_file else None,
    }


def difference(kept: Mapping[str, Any], spec: EndpointSpec) -> str | None:
    """Return a phrase on how the endpoint with this record differs from `spec`; None if they are equal."""
    requested = record_of(spec)
    if kept.get("identity") != spec.identity:
        return f"serves {kept.get('identity', 'an unknown model')}, not {spec.identity}"
    changed = [name for name, value in requested.items() if kept.get(name) != value]
    return f"serves {spec.identity}, but differs in {', '.join(changed)}" if changed else None


def _state(name: str, server: ServerFolder) -> EndpointState:
    kept, address = server.read("state.json"), server.read(ADDRESS).get("address")
    # Checked before the process, so that a server that ends between the two checks counts as ended.
    answers = server.answers()
    is_alive = server.process() is not None
    return EndpointState(
        name=name,
        service=TRAITS.name,
        status=("InService" if answers else "Creating") if is_alive else "Failed",
        identity=str(kept.get("identity", "")),
        address=f"{address}/invocations" if address else "",
        machine=TRAITS.name,
        created=datetime.fromtimestamp(kept.get("created", 0.0), UTC),
        reason=None if is_alive else server.failure_reason(),
    )
