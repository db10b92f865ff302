"""Folder of an endpoint: its lock and its servers.

endpoints/NAME/lock        held by the command that changes the endpoint
endpoints/NAME/current     link to the folder of the server that answers requests
endpoints/NAME/<number>/   one server: state.json, address.json, log.txt, server.lock
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from models.endpoints.local.server_folder import ServerFolder
from models.endpoints.protocol import Echo
from training.state.locks import exclusive_lock


@dataclass(frozen=True)
class EndpointFolder:
    """Folder of one endpoint."""

    path: Path

    @property
    def name(self) -> str:
        """The endpoint's name."""
        return self.path.name

    def current(self) -> ServerFolder | None:
        """Return the folder of the server that answers requests; None if the endpoint does not exist."""
        link = self.path / "current"
        with contextlib.suppress(FileNotFoundError):
            server_folder = ServerFolder(self.path / link.readlink())
            return server_folder if server_folder.path.is_dir() else None
        return None

    def servers(self) -> list[ServerFolder]:
        """Return the folders of all servers of the endpoint, including unpublished ones."""
        if not self.path.is_dir():
            return []
        return [ServerFolder(path) for path in sorted(self.path.iterdir()) if path.name.isdecimal()]

    def new(self) -> ServerFolder:
        """Create and return the folder of a new server."""
        path = self.path / str(time.time_ns())
        path.mkdir()
        return ServerFolder(path)

    def publish(self, server: ServerFolder) -> None:
        """Make this server the one that answers requests, in one step."""
        fresh = self.path / "current.new"
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(server.path.name)
        fresh.replace(self.path / "current")

    def delete_leftovers(self) -> None:
        """Stop and delete leftover servers: all except the current one. The caller must hold the lock."""
        current = self.current()
        for server in self.servers():
            if server != current:
                server.end()
                shutil.rmtree(server.path, ignore_errors=True)

    def delete(self) -> None:
        """Stop all servers and delete the folder. The caller must hold the lock."""
        for server in self.servers():
            server.end()
        # Delete the link first, so that a concurrent listing never shows half an endpoint.
        (self.path / "current").unlink(missing_ok=True)
        shutil.rmtree(self.path, ignore_errors=True)

    @contextlib.contextmanager
    def locked(self, echo: Echo) -> Iterator[None]:
        """Lock the endpoint against other commands that change it. Prints a line if it has to wait."""
        lock = self._acquire_lock(echo)
        try:
            yield
        finally:
            # A folder without a server is not an endpoint.
            if not self.servers():
                shutil.rmtree(self.path, ignore_errors=True)
            os.close(lock)

    def _acquire_lock(self, echo: Echo) -> int:
        is_reported = False
        while True:
            self.path.mkdir(parents=True, exist_ok=True)
            try:
                return exclusive_lock(self.path / "lock")
            except FileNotFoundError:
                continue  # a different command deleted the folder and the lock
            except BlockingIOError:
                if not is_reported:
                    echo(f"Waiting for a different command that is changing endpoint {self.name}.")
                is_reported = True
                time.sleep(0.1)
