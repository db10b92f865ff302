"""Proxy of a real tracking server that refuses some calls, like an older server or one with fewer permissions."""

from __future__ import annotations

import http.client
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from tests.support.endpoints.served import Serving


class Forwarding(Serving):
    """Proxy that answers calls whose path contains `kept` with `status` and `body`, and forwards all others.

    If the server does not answer, neither does the proxy.
    """

    def __init__(self, server_uri: str, kept: str | None = None, status: int = 404, body: bytes = b"") -> None:
        self._server_uri, self._kept, self._answer = urlsplit(server_uri), kept, (status, body)
        self.paths: list[str] = []
        """Paths of all calls, in their order."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        server.daemon_threads = True
        super().__init__(server)

    def calls(self, ending: str) -> int:
        """Return the number of calls whose path has this end."""
        return sum(path.endswith(ending) for path in self.paths)

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """Return status and body for a call."""
        self.paths.append(urlsplit(path).path)
        if self._kept is not None and self._kept in path:
            return self._answer
        server = http.client.HTTPConnection(self._server_uri.hostname or "", self._server_uri.port, timeout=60)
        try:
            server.request(method, path, body, {"Content-Type": "application/json"})
            answer = server.getresponse()
            return answer.status, answer.read()
        finally:
            server.close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._reply()

            def do_POST(self) -> None:
                self._reply()

            def do_PUT(self) -> None:
                self._reply()

            def do_PATCH(self) -> None:
                self._reply()

            def do_DELETE(self) -> None:
                self._reply()

            def _reply(self) -> None:
                sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                try:
                    status, body = proxy.answer(self.command, self.path, sent)
                except OSError:  # the server has gone
                    self.close_connection = True
                    return
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler
