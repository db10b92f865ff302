"""Endpoints on this machine: implements `Endpoints` with server processes and their folders."""

from __future__ import annotations

import http.client
import json
import shutil
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from models.endpoints.local.deploy_request import difference, record_of
from models.endpoints.local.endpoint_folder import EndpointFolder
from models.endpoints.local.server_folder import ServerFolder
from models.endpoints.protocol import ALIVE, Action, DeploymentPlan, Echo, EndpointSpec, EndpointState
from models.server.token_file import read_token
from training.contract.errors import EndpointFailed, EndpointNotFound, EndpointTaken, InputError, nearest
from training.contract.price import Price
from training.contract.retry import RetryPolicy

PAUSE_SECONDS = 0.1
REPORT_SECONDS = 5.0
"""Time between two progress lines while waiting."""
ANSWER_SECONDS = 600.0
"""Longest wait for one answer."""


class LocalEndpoints:
    """Servers on this machine, under `root`. Any process can list, query and stop them."""

    name = "local"

    def __init__(self, root: Path) -> None:
        self._root = root / "endpoints"

    def deploy(self, spec: EndpointSpec, echo: Echo) -> EndpointState:
        """Deploy the model and return the endpoint once it answers; see `Endpoints.deploy`."""
        folder = self._folder(spec.name)
        with folder.locked(echo):
            folder.delete_leftovers()
            current = folder.current()
            if current is not None and (kept := self._existing(folder, current, spec, echo)):
                return kept
            server = folder.new()
            try:
                self._write(server, spec)
                if current is None:
                    # Publish before the server starts: even if this command is killed, a running server must be listed.
                    folder.publish(server)
                self._start(server, spec)
                self._wait(server, spec, echo)
                folder.publish(server)
            except BaseException:
                server.end()
                if folder.current() == server:
                    (folder.path / "current").unlink()
                shutil.rmtree(server.path, ignore_errors=True)
                raise
            folder.delete_leftovers()
            return _state(folder.name, server)

    def plan(self, spec: EndpointSpec) -> DeploymentPlan:
        """Return the steps that `deploy` would take, and take none; see `Endpoints.plan`."""
        folder = self._folder(spec.name)
        current = folder.current()
        return DeploymentPlan(action="create" if current is None else self._action(folder, current, spec))

    @staticmethod
    def _action(folder: EndpointFolder, current: ServerFolder, spec: EndpointSpec) -> Action:
        """Return whether the current server stays. Raises EndpointTaken if it must not be replaced."""
        if _state(folder.name, current).status not in ALIVE:
            return "create"
        differs = difference(current.state(), spec)
        if differs and not spec.replace:
            raise EndpointTaken(
                f"endpoint {folder.name} {differs}: use --replace true to replace it, or choose a different --name."
            )
        return "replace" if differs else "keep"

    def _existing(
        self, folder: EndpointFolder, current: ServerFolder, spec: EndpointSpec, echo: Echo
    ) -> EndpointState | None:
        """Return the running endpoint with this name if it matches `spec`; None if a new server is needed."""
        state = _state(folder.name, current)
        if self._action(folder, current, spec) != "keep":
            return None
        if state.status == "Creating":
            try:
                self._wait(current, spec, echo)
            except EndpointFailed:
                return None
        echo(f"Endpoint {folder.name} already serves {spec.identity}")
        if spec.lifetime_seconds is not None:
            current.write_state(current.state() | _lifetime(spec))
        return _state(folder.name, current)

    @staticmethod
    def _write(server: ServerFolder, spec: EndpointSpec) -> None:
        # Called before the server reads the files, so that the next deploy notices files that change meanwhile.
        kept = {**record_of(spec), "run_id": spec.run_id, "model_id": spec.model_id, "created": time.time()}
        server.write_state(kept | _lifetime(spec))

    def _start(self, server: ServerFolder, spec: EndpointSpec) -> None:
        options = ["--model", str(spec.model.resolve()), "--home", str(self._root.parent)]
        options += ["--task", spec.task] if spec.task else []
        options += ["--precision", spec.precision] if spec.precision else []
        options += ["--evaluation", spec.evaluation.to_json()] if spec.run_id else []
        options += ["--max-length", str(spec.max_length)] if spec.max_length else []
        options += ["--host", spec.host]
        options += ["--token-file", str(spec.token_file)] if spec.token_file else []
        server.start(options)

    def _wait(self, server: ServerFolder, spec: EndpointSpec, echo: Echo) -> None:
        """Wait until the server answers. Raises `EndpointFailed` if it ends or takes too long."""
        reported_at_seconds = 0.0
        echo(f"Starting endpoint {spec.name} with model {spec.model}")
        policy = RetryPolicy(first_pause_seconds=PAUSE_SECONDS, factor=1.0, total_seconds=spec.wait_seconds)
        for elapsed_seconds in policy.attempts():
            if server.answers():
                return
            if not server.is_alive():
                raise EndpointFailed(f"endpoint {spec.name} did not start: {_failure_reason(server)}")
            if elapsed_seconds - reported_at_seconds > REPORT_SECONDS:
                reported_at_seconds = elapsed_seconds
                echo(f"Waiting for endpoint {spec.name} for {elapsed_seconds:.0f} s: it is loading its model")
        raise EndpointFailed(
            f"endpoint {spec.name} did not answer within {spec.wait_seconds:.0f} s: {_failure_reason(server)}"
        )

    def predict(self, name: str, body: bytes) -> bytes:
        """Return the answer to one JSON request; see `Endpoints.predict`."""
        state = self.describe(name)
        if state.status != "InService":
            raise EndpointFailed(f"endpoint {name} is {state.status}: {state.reason or 'retry when it is InService'}")
        headers = {"Content-Type": "application/json"} | self._authorization(name)
        connection = http.client.HTTPConnection(urlsplit(state.address).netloc, timeout=ANSWER_SECONDS)
        try:
            connection.request("POST", "/invocations", body, headers)
            response = connection.getresponse()
            status, answer = response.status, response.read()
        except (OSError, http.client.HTTPException) as error:
            after = self.describe(name)
            raise EndpointFailed(f"endpoint {name} did not answer: {after.reason or error}") from error
        finally:
            connection.close()
        if status == 200:
            return answer
        if 400 <= status < 500:
            raise InputError(f"endpoint {name} rejected the request with status {status}: {_message(answer)}")
        raise EndpointFailed(f"endpoint {name} failed with status {status}: {_message(answer)}")

    def price(self, machine: str) -> Price | None:
        """Return None: this machine has no price."""
        return None

    def _authorization(self, name: str) -> dict[str, str]:
        """Return the header with the endpoint's token, if it has one. Raises `InputError` if its file is unusable."""
        current = self._folder(name).current()
        path = current.state().get("token_file") if current else None
        return {"Authorization": f"Bearer {read_token(Path(path))}"} if path else {}

    def describe(self, name: str) -> EndpointState:
        """Return the endpoint's current state. Raises `EndpointNotFound`."""
        current = self._folder(name).current()
        if current is None:
            raise self._missing(name)
        return _state(name, current)

    def undeploy(self, name: str, echo: Echo) -> None:
        """Stop the servers and delete the endpoint's folder. Raises `EndpointNotFound`."""
        folder = self._folder(name)
        if not folder.servers():
            raise self._missing(name)
        with folder.locked(echo):
            folder.delete()
        echo(f"{name}: deleted")

    def endpoints(self) -> list[EndpointState]:
        """Return all endpoints on this machine, newest first."""
        if not self._root.is_dir():
            return []
        folders = [
            EndpointFolder(path) for path in self._root.iterdir() if path.is_dir() and not path.name.startswith(".")
        ]
        current_folders = [(folder.name, current) for folder in folders if (current := folder.current()) is not None]
        return sorted((_state(*each) for each in current_folders), key=lambda state: state.created, reverse=True)

    def _missing(self, name: str) -> EndpointNotFound:
        known = [state.name for state in self.endpoints()]
        return EndpointNotFound(f"local endpoint '{name}' does not exist.{nearest(name, known)}")

    def _folder(self, name: str) -> EndpointFolder:
        return EndpointFolder(self._root / name)


def _lifetime(spec: EndpointSpec) -> dict[str, Any]:
    """Return the fields of the server's state for a lifetime that begins now."""
    expires = None if spec.lifetime_seconds is None else time.time() + spec.lifetime_seconds
    return {"expires": expires, "when_over": spec.when_over}


def _state(name: str, server: ServerFolder) -> EndpointState:
    kept = server.state()
    # Checked before `is_alive`, so that a server that ends between the two checks counts as ended.
    answers = server.answers()
    status, reason = _status(server, kept, answers)
    return EndpointState(
        name=name,
        service="local",
        status=status,
        identity=str(kept.get("identity", "")),
        run_id=kept.get("run_id"),
        model_id=kept.get("model_id"),
        address=f"{address}/invocations" if (address := server.address()) else "",
        machine="local",
        created=_time(kept.get("created", server.path.stat().st_mtime)),
        expires=None if kept.get("expires") is None else _time(kept["expires"]),
        when_over=kept.get("when_over", "warn"),
        reason=reason,
        log=str(server.log),
    )


def _status(server: ServerFolder, kept: Mapping[str, Any], answers: bool) -> tuple[str, str | None]:
    if server.is_alive():
        return ("InService" if answers else "Creating"), None
    if kept.get("when_over") == "delete" and (kept.get("expires") or time.time()) <= time.time():
        return "OutOfService", "its lifetime has ended"
    return "Failed", _failure_reason(server)


def _failure_reason(server: ServerFolder) -> str:
    words = server.last_log_lines()
    return f"the last lines of its log are: {words}" if words else "its log is empty; the server may have been killed"


def _message(answer: bytes) -> str:
    try:
        return str(json.loads(answer)["message"])
    except (ValueError, KeyError, TypeError):
        return answer[:200].decode("utf-8", "replace")


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
