"""Decide which requests may use the server, by their Host header and their token. Pure."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

from models.server.errors import CLOSE, Header, Refused, shown
from training.contract.errors import InputError

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
LEAST_TOKEN_LENGTH = 16
"""Shortest token, in characters."""


@dataclass(frozen=True)
class Access:
    """Names by which the server may be called, and the token that a request needs."""

    hosts: frozenset[str] | None = LOOPBACK_NAMES
    """Host names and addresses without ports. None allows all names, which is safe only with a token: otherwise a web
    page could reach the server through a name that it lets point to this machine (DNS rebinding)."""
    token: str | None = None

    def check_host(self, headers: Iterable[Header]) -> None:
        """Raise `Refused` unless the Host header names this server. HTTP/1.0 has no such header."""
        host = next((value.decode("latin-1") for name, value in headers if name == b"host"), None)
        if host is not None and self.hosts is not None and _name(host) not in self.hosts:
            sentence = f"the Host header is '{shown(host)}', which is not a name of this server: use localhost."
            raise Refused(403, sentence, CLOSE)

    def check_token(self, headers: Iterable[Header]) -> None:
        """Raise `Refused` unless the request has the token, if the server has one."""
        if self.token is None:
            return
        given = next((value for name, value in headers if name == b"authorization"), b"")
        if not hmac.compare_digest(given, b"Bearer " + self.token.encode()):
            sentence = "the token is missing or wrong: send the header 'Authorization: Bearer TOKEN'."
            raise Refused(401, sentence, (b"www-authenticate", b"Bearer"), CLOSE)


def access(host: str, token: str | None) -> Access:
    """Return the access rules of a server that is bound to `host`.

    Raises InputError if other machines could use it without a token, or if the token is too short.
    """
    if token is not None and (len(token) < LEAST_TOKEN_LENGTH or not token.isascii() or not token.isprintable()):
        raise InputError(f"the token must have at least {LEAST_TOKEN_LENGTH} characters, all printable ASCII.")
    if is_loopback(host):
        return Access(LOOPBACK_NAMES | {host.lower()}, token)
    if token is None:
        raise InputError(f"--host {host} lets other machines use the server, so --token-file is required.")
    return Access(None, token)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server that is bound to `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def in_url(host: str) -> str:
    """Return a host name or address as it is written in a URL."""
    return f"[{host}]" if ":" in host else host


def _name(host: str) -> str:
    """Return a Host header's name or address, without port, brackets and final full stop."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].removesuffix(".").lower()
