"""HTTP servers for tests, each in a thread of this process, on a free port."""

from __future__ import annotations

import threading
from http.server import HTTPServer
from typing import Self


class Serving:
    """A server that answers between `start` and `close`."""

    def __init__(self, server: HTTPServer) -> None:
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def url(self) -> str:
        """Address of the server."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop answering, and free the port."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
