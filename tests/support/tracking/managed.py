"""SageMaker's managed MLflow as its client sees it: calls are signed for an ARN, and artifacts are in S3.

It is a proxy of a real `mlflow server` that checks the ARN and signature of each call and records the calls. Tracking
servers and MLflow Apps have headers and signing names of their own (sagemaker-mlflow 0.5.0, `auth_provider.py` and
`mlflow_sagemaker_request_header_provider.py`).
"""

from __future__ import annotations

import http.client
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.conftest import TrackingServer
from tests.support.endpoints.served import Serving

REGION = "us-east-1"
ARN = f"arn:aws:sagemaker:{REGION}:123456789012:mlflow-tracking-server/runs"
APP = f"arn:aws:sagemaker:{REGION}:123456789012:mlflow-app/app-ABCDEFGHIJ"
HEADERS = {ARN: "x-mlflow-sm-tracking-server-arn", APP: "x-sm-mlflow-app-arn"}
"""Header that names the resource."""
SIGNING_NAMES = {ARN: "sagemaker-mlflow", APP: "sagemaker"}
AUTHORIZATION = re.compile(
    rf"AWS4-HMAC-SHA256 Credential=(?P<key>[^/]+)/\d{{8}}/{REGION}/(?P<service>[^/]+)/aws4_request, "
    r"SignedHeaders=(?P<names>[^,]+), Signature=(?P<signature>[0-9a-f]{64})"
)
HOP = {"connection", "host", "content-length", "authorization", "transfer-encoding", "accept-encoding"}


class ManagedMlflow(Serving):
    """Server at the address in SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT."""

    def __init__(self, server_uri: str, key: str, secret: str, arn: str = ARN) -> None:
        self._arn = arn
        self._mlflow, self._credentials = urlsplit(server_uri), Credentials(key, secret)
        self.calls: set[str] = set()
        """Method and path of every call, identifiers left out."""
        self.refused: list[str] = []
        """Reasons for which calls were refused."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        server.daemon_threads = True
        super().__init__(server)

    def objection(self, method: str, url: str, headers: Any, body: bytes) -> str | None:
        """Return the error of a call, or None if SageMaker would accept it."""
        service = SIGNING_NAMES[self._arn]
        if headers.get(HEADERS[self._arn]) != self._arn:
            return "no ARN of the tracking server"
        parsed = AUTHORIZATION.fullmatch(headers.get("Authorization", ""))
        if parsed is None or (parsed["key"], parsed["service"]) != (self._credentials.access_key, service):
            return f"no signature for {service}"
        signed = {name: headers[name] for name in parsed["names"].split(";") if name != "host"}
        request = AWSRequest(method=method, url=url, data=body, headers=signed)
        request.context["timestamp"] = headers["X-Amz-Date"]
        signer = SigV4Auth(self._credentials, service, REGION)
        text = signer.string_to_sign(request, signer.canonical_request(request))
        return None if signer.signature(text, request) == parsed["signature"] else "the signature is of another call"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        managed = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._forward()

            def do_POST(self) -> None:
                self._forward()

            def do_PATCH(self) -> None:
                self._forward()

            def do_DELETE(self) -> None:
                self._forward()

            def _forward(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                url = f"http://{self.headers['Host']}{self.path}"
                if wrong := managed.objection(self.command, url, self.headers, body):
                    managed.refused.append(f"{self.command} {self.path}: {wrong}")
                    self._answer(403, {}, b"{}")
                    return
                managed.calls.add(f"{self.command} {urlsplit(self.path).path}")
                server = http.client.HTTPConnection(managed._mlflow.hostname or "", managed._mlflow.port, timeout=60)
                headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP}
                server.request(self.command, self.path, body, headers)
                answer = server.getresponse()
                self._answer(answer.status, dict(answer.getheaders()), answer.read())
                server.close()

            def _answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    if name.lower() not in HOP:
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


@contextmanager
def server_with_s3_artifacts(folder: Path, database: Path, s3: Any) -> Iterator[TrackingServer]:
    """Run a tracking server with a copy of a database, and with artifacts in S3."""
    s3.create_bucket(Bucket="artifacts")
    folder.mkdir()
    shutil.copy(database, folder / "mlflow.db")
    server = TrackingServer(folder)
    try:
        server.start("--no-serve-artifacts", "--default-artifact-root", "s3://artifacts/mlflow")
        yield server
    finally:
        server.stop()
