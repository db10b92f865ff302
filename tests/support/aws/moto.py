"""moto's server, which gives no two log events one id, and notes the product's calls."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

from tests.support.endpoints.served import Serving


class MotoServer(Serving):
    """S3, IAM, STS and CloudWatch Logs, in a thread of this process."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, str]] = []
        """Time (monotonic, seconds) and operation of every call of the product's own clients."""
        self.not_ours: set[str] = set()
        """Buckets that belong to another account, which moto has no say in."""
        self._putting = threading.Lock()  # moto counts its events without one, and would give two the same id
        self._app = DomainDispatcherApplication(create_backend_app)
        super().__init__(make_server("127.0.0.1", 0, self._answer, True, request_handler=MotoRequestHandler))

    def _answer(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        operation = environ.get("HTTP_X_AMZ_TARGET", "").partition(".")[2]
        if "trainfare" in environ.get("HTTP_USER_AGENT", ""):
            self.calls.append((time.monotonic(), operation or f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}"))
        if environ["PATH_INFO"].split("/")[1] in self.not_ours:
            start_response("403 Forbidden", [("Content-Length", "0")])
            return []
        with self._putting if operation == "PutLogEvents" else nullcontext():
            answer: Iterable[bytes] = self._app(environ, start_response)
        return answer
