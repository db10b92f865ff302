"""Decide which requests may use the server, by their Host header and their token."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from starlette.exceptions import HTTPException

from training.contract.errors import InputError

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
LEAST_TOKEN_LENGTH = 16
"""Shortest token, in characters."""


@dataclass(frozen=True)
class Access:
    """Names by which the server may be called, and the token that a request needs."""

    hosts: Sequence[str] = LOOPBACK_NAMES
    """Host names and addresses without ports. `*` allows all names, which is safe only with a token: otherwise a web
    page could reach the server through a name that it lets point to this machine (DNS rebinding)."""
    token: str | None = None

    def check_token(self, headers: Mapping[str, str]) -> None:
        """Raise HTTPException unless the request has the token, if the server has one."""
        given = headers.get("authorization", "").encode("latin-1")
        if self.token is not None and not hmac.compare_digest(given, b"Bearer " + self.token.encode()):
            sentence = "the token is missing or wrong: send the header 'Authorization: Bearer TOKEN'."
            raise HTTPException(401, sentence, {"WWW-Authenticate": "Bearer"})


def access(host: str, token: str | None) -> Access:
    """Return the access rules of a server that is bound to `host`.

    Raises InputError if other machines could use it without a token, or if the token is too short.
    """
    if token is not None and (len(token) < LEAST_TOKEN_LENGTH or not token.isascii() or not token.isprintable()):
        raise InputError(f"the token must have at least {LEAST_TOKEN_LENGTH} characters, all printable ASCII.")
    if _is_loopback(host):
        return Access((*LOOPBACK_NAMES, in_url(host)), token)
    if token is None:
        raise InputError(f"--host {host} lets other machines use the server, so --token-file is required.")
    return Access(("*",), token)


def in_url(host: str) -> str:
    """Return a host name or address as it is written in a URL."""
    return f"[{host}]" if ":" in host else host


def _is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server that is bound to `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
