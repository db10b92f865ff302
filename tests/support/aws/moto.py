"""moto's server, with unique ids of log events and a record of the product's calls."""

from __future__ import annotations

import io
import re
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any
from urllib.parse import parse_qs

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

from tests.support.aws.rights import action_of, rest_action
from tests.support.endpoints.served import Serving


class MotoServer(Serving):
    """S3, IAM, STS and CloudWatch Logs, in a thread of this process."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, str]] = []
        """Time (monotonic, seconds) and operation of every call of the product's clients."""
        self.actions: set[str] = set()
        """Permissions that these calls need, such as `s3:GetObject`."""
        self.read_bytes = 0
        """Size of the responses to the product's calls."""
        self.foreign_buckets: set[str] = set()
        """Buckets of another account; moto does not simulate them."""
        self._put_lock = threading.Lock()  # moto counts its events without a lock, so two could get the same id.
        self._app = DomainDispatcherApplication(create_backend_app)
        super().__init__(make_server("127.0.0.1", 0, self._answer, True, request_handler=MotoRequestHandler))

    def _answer(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        operation = environ.get("HTTP_X_AMZ_TARGET", "").partition(".")[2]
        if "trainfare" in environ.get("HTTP_USER_AGENT", ""):
            self.calls.append((time.monotonic(), operation or f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}"))
            self.actions.add(_action(environ, operation))
            start_response = self._counting(start_response)
        if environ["PATH_INFO"].split("/")[1] in self.foreign_buckets:
            start_response("403 Forbidden", [("Content-Length", "0")])
            return []
        with self._put_lock if operation == "PutLogEvents" else nullcontext():
            response: Iterable[bytes] = self._app(environ, start_response)
        return response

    def _counting(self, start_response: Callable[..., Any]) -> Callable[..., Any]:
        def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            self.read_bytes += int(dict(headers).get("Content-Length", 0))
            return start_response(status, headers, *more)

        return start


def _action(environ: dict[str, Any], operation: str) -> str:
    """Return the permission that a call needs.

    S3 and endpoints have REST calls. Those of IAM and STS name their operation in a form.
    """
    service = re.search(r"Credential=[^/]+/\d+/[^/]+/([^/]+)/", environ.get("HTTP_AUTHORIZATION", ""))
    assert service, "an unsigned call"
    if service[1] == "s3":
        return rest_action(environ["REQUEST_METHOD"], environ["PATH_INFO"], environ.get("QUERY_STRING", ""))
    if operation:
        return action_of(service[1], operation)
    if environ["PATH_INFO"].endswith("/invocations"):
        return "sagemaker:InvokeEndpoint"
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    environ["wsgi.input"] = io.BytesIO(body)
    return action_of(service[1], parse_qs(body.decode())["Action"][0])
