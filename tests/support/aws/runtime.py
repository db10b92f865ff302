"""The runtime of an account's endpoints, as `invoke_endpoint` asks it: REST, its errors in headers."""

from __future__ import annotations

import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.aws.api import Dropped, Faults, Refused
from tests.support.aws.hosting import Hosting
from tests.support.endpoints.served import Serving

PATH = re.compile(r"/endpoints/([^/]+)/invocations")


class Runtime(Serving):
    """Hands requests to what is hosted."""

    def __init__(self, hosting: Hosting) -> None:
        self._hosting = hosting
        self.faults = Faults()
        server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        server.daemon_threads = True
        super().__init__(server)

    def answer(self, name: str, body: bytes) -> bytes:
        """Return what the endpoint answers. Raises Refused, with the container's own answer where it refuses."""
        self.faults.meet("InvokeEndpoint")
        status, content = self._hosting.invoke(name, body)
        if status >= 400:
            message = f"Received client error ({status}) from primary with message {content.decode()!r}."
            raise Refused("ModelError", json.dumps([message, status, content.decode()]), 424)
        return content

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        runtime = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else a body waits 40 ms for the headers before it to be confirmed

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                found = PATH.fullmatch(self.path)
                assert found
                try:
                    self._send(200, runtime.answer(found[1], body), "")
                except Refused as refused:
                    self._send(refused.status, json.dumps(_told(refused)).encode(), refused.code)
                except Dropped:
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


def _told(refused: Refused) -> dict[str, Any]:
    if refused.code != "ModelError":
        return {"Message": refused.message}
    message, status, said = json.loads(refused.message)
    return {"Message": message, "OriginalStatusCode": status, "OriginalMessage": said}
