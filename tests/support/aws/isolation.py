"""An interpreter without a network, for the jobs of `EnableNetworkIsolation`."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

from tests.support.fork_server.interpreter import INTERPRETER

NAMESPACE = "unshare --map-root-user --net sh -c 'ip link set lo up && exec \"$@\"' sh"
"""Command that runs another with only a loopback interface, in the same process."""
CLOSED = "export HTTP_PROXY=http://127.0.0.1:9 HTTPS_PROXY=http://127.0.0.1:9 http_proxy=http://127.0.0.1:9;"
"""Fallback where namespaces are not allowed: HTTP goes to a closed port."""


def isolated_interpreter(folder: Path) -> Path:
    """Write a program into the folder that runs this interpreter without a network, and return its path."""
    start = f"exec {NAMESPACE}" if has_namespaces() else f"{CLOSED} exec"
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "python"
    program.write_text(f'#!/bin/sh\n{start} "{INTERPRETER}" "$@"\n')
    program.chmod(0o755)
    return program


@cache
def has_namespaces() -> bool:
    """Return whether this machine lets its users create network namespaces."""
    return subprocess.run(f"{NAMESPACE} true", shell=True, capture_output=True).returncode == 0
