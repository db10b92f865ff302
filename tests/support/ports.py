"""Free TCP ports of this machine."""

from __future__ import annotations

import os
import random
import socket

UNASSIGNED_PORTS = range(20_000, 30_000)


def free_port() -> int:
    """Return a free port that Linux will not assign by itself.

    Each of pytest's processes has ports of its own, because a server takes its port seconds later. `SystemRandom`,
    because tests seed `random`.
    """
    process = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    for port in random.SystemRandom().sample(UNASSIGNED_PORTS[process::processes], 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("none of a hundred ports is free")
