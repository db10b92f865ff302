"""Free TCP ports of this machine."""

from __future__ import annotations

import random
import socket

UNASSIGNED_PORTS = range(20_000, 30_000)


def free_port() -> int:
    """Return a free port that Linux will not assign by itself.

    `SystemRandom`, because tests seed `random`: two test processes would choose the same ports.
    """
    for port in random.SystemRandom().sample(UNASSIGNED_PORTS, 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("none of a hundred ports is free")


def is_listening(port: int) -> bool:
    """Return whether a server of this machine accepts connections at the port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
