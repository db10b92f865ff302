"""A simulated Hugging Face Hub over HTTP. It answers the calls of a push, and records all requests."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Hub:
    """Settings of the server, and the requests that it received."""

    token: str
    """The only token that it accepts."""
    private: bool = True
    """True if the repository is private."""
    refuses: str = ""
    """Regular expression for the paths that get status 403."""
    created: list[dict[str, Any]] = field(default_factory=list)
    """Bodies of the calls that create a repository."""
    branches: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    """Files of the last commit, by their path."""
    revision: str = ""
    """Branch of the last commit."""
    message: str = ""
    """Message of the last commit."""
    bodies: list[bytes] = field(default_factory=list)
    """Bodies of all calls."""
    stored: dict[str, bytes] = field(default_factory=dict)
    """Content of large files by their SHA-256."""
    url: str = ""

    @property
    def credentials(self) -> set[str]:
        """Accepted `Authorization` headers: the current one, and that of old clients for large files."""
        return {f"Bearer {self.token}", f"Basic {base64.b64encode(f'access_token:{self.token}'.encode()).decode()}"}

    @property
    def repeated(self) -> str:
        """Text with the credentials, as a careless server would return it."""
        return " also known as ".join(sorted(self.credentials))

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        """Return status and JSON of the response to a call."""
        if path == "/api/repos/create":
            self.created.append(json.loads(body))
            repository = f"{self.created[-1].get('organization')}/{self.created[-1]['name']}"
            return 200, {"url": f"{self.url}/{repository}", "name": repository, "id": "1"}
        if path == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": [{"message": f"{self.repeated} wrote this"}]}
        if branch := re.search(r"/branch/(.+)$", path):
            self.branches.append(branch[1])
            return 200, {}
        if re.search(r"/preupload/", path):
            files = json.loads(body)["files"]
            modes = [
                (each["path"], "lfs" if each["path"].endswith(("safetensors", "bin")) else "regular") for each in files
            ]
            return 200, {"files": [{"path": name, "uploadMode": mode, "shouldIgnore": False} for name, mode in modes]}
        if path.endswith("/info/lfs/objects/batch"):
            objects = json.loads(body)["objects"]
            ways = [{**each, "actions": {"upload": {"href": f"{self.url}/large/{each['oid']}"}}} for each in objects]
            return 200, {"transfer": "basic", "objects": ways}
        if path.startswith("/large/"):
            self.stored[path.rpartition("/")[2]] = body
            return 200, {}
        if commit := re.search(r"/commit/(.+)$", path):
            return 200, self._commit(commit[1], [json.loads(line) for line in body.splitlines()])
        if method == "GET" and path.startswith("/api/models/"):
            name = path.split("?")[0].removeprefix("/api/models/")
            return 200, {"id": name, "modelId": name, "private": self.private, "siblings": [], "tags": []}
        return 404, {"error": f"no {path}"}

    def _commit(self, revision: str, lines: list[dict[str, Any]]) -> dict[str, Any]:
        self.revision, self.files = revision, {}
        for line in lines:
            value = line["value"]
            if line["key"] == "header":
                self.message = value["summary"]
            elif line["key"] == "file":
                self.files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                self.files[value["path"]] = self.stored[value["oid"]]
        return {
            "success": True,
            "commitOid": "c" * 40,
            "commitUrl": f"{self.url}/o/n/commit/{'c' * 40}",
            "hookOutput": "",
        }


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """Serve the hub on a free port until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _handle(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            authorization = self.headers.get("Authorization", "")
            hub.bodies.append(body)
            if not self.path.startswith("/large/") and authorization not in hub.credentials:
                # Some servers repeat the credentials in their error message.
                self._send(401, {"error": f"Invalid credentials: {authorization}"})
                return
            if hub.refuses and re.search(hub.refuses, self.path):
                self._send(403, {"error": f"{hub.repeated} may not write"})
                return
            self._send(*hub.answer(self.command, self.path, body))

        do_GET = do_POST = do_PUT = do_HEAD = _handle  # noqa: N815

        def _send(self, status: int, content: Any) -> None:
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            if status >= 400:
                self.send_header("X-Error-Message", content["error"])
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
