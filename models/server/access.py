"""Access to the server: its permitted host names, and the token in a file."""

from __future__ import annotations

import ipaddress
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from state.regular_files import open_regular
from training.contract.errors import InputError

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
LEAST_TOKEN_LENGTH = 16


def allowed_hosts(host: str, token: str | None) -> Sequence[str]:
    """Return the names by which a server that is bound to `host` may be called; `*` allows all names.

    All names are safe only with a token: otherwise a web page could reach the server through a name that it lets point
    to this machine (DNS rebinding). Raises InputError if other machines could use the server without a token, or if
    the token is too short.
    """
    if token is not None and (len(token) < LEAST_TOKEN_LENGTH or not token.isascii() or not token.isprintable()):
        raise InputError(f"the token must have at least {LEAST_TOKEN_LENGTH} characters, all printable ASCII.")
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = host.lower() == "localhost"
    if is_loopback:
        return (*LOOPBACK_NAMES, in_url(host))
    if token is None:
        raise InputError(f"--host {host} lets other machines use the server, so --token-file is required.")
    return ("*",)


def in_url(host: str) -> str:
    """Return a host name or address as it is written in a URL."""
    return f"[{host}]" if ":" in host else host


def read_token(path: Path) -> str:
    """Return the token. Raises InputError if the file cannot be read, or if other users can read or replace it."""
    try:
        with open_regular(path, follow_links=True) as file:
            status, content = os.fstat(file.fileno()), file.read()
    except OSError as error:
        raise InputError(f"the token file {path} cannot be read: {(error.strerror or str(error)).lower()}.") from error
    mode = stat.S_IMODE(status.st_mode)
    # A group may read it, because it can share an endpoint.
    if status.st_uid not in (0, os.getuid()) or mode & (stat.S_IRWXO | stat.S_IWGRP):
        owner = f"its owner is user {status.st_uid} and its mode {mode:04o}"
        raise InputError(f"the token file {path} is not safe: {owner}. Own it, and run `chmod 600` on it.")
    return content.decode("utf-8", "replace").strip()
