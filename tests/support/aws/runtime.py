"""The runtime API of an account's endpoints, for `invoke_endpoint`: REST, with error codes in headers."""

from __future__ import annotations

import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.aws.api import ApiError, Dropped, Faults
from tests.support.aws.hosting import Hosting
from tests.support.endpoints.served import Serving

PATH = re.compile(r"/endpoints/([^/]+)/invocations")


class Runtime(Serving):
    """HTTP server that passes requests to the hosted endpoints."""

    def __init__(self, hosting: Hosting) -> None:
        self._hosting = hosting
        self.faults = Faults()
        self.is_called = False
        server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        server.daemon_threads = True
        super().__init__(server)

    def answer(self, name: str, body: bytes) -> bytes:
        """Return the endpoint's response. Raises ApiError; an error of the container includes its response."""
        self.is_called = True
        self.faults.meet("InvokeEndpoint")
        status, content = self._hosting.invoke(name, body)
        if status >= 400:
            message = f"Received client error ({status}) from primary with message {content.decode()!r}."
            raise ApiError("ModelError", json.dumps([message, status, content.decode()]), 424)
        return content

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        runtime = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # Otherwise a body waits 40 ms for the acknowledgement of its headers.

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                match = PATH.fullmatch(self.path)
                assert match
                try:
                    self._send(200, runtime.answer(match[1], body), "")
                except ApiError as error:
                    self._send(error.status, json.dumps(_error_body(error)).encode(), error.code)
                except (Dropped, BrokenPipeError):  # the client may have stopped waiting
                    self.close_connection = True

            def _send(self, status: int, content: bytes, code: str) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                if code:
                    self.send_header("x-amzn-ErrorType", code)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


def _error_body(error: ApiError) -> dict[str, Any]:
    if error.code != "ModelError":
        return {"Message": error.message}
    message, status, original = json.loads(error.message)
    return {"Message": message, "OriginalStatusCode": status, "OriginalMessage": original}
