"""HTTP as bytes on a socket, including requests that no well-behaved client would send."""

from __future__ import annotations

import json
import socket
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Answer:
    """A response."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Talk:
    """One connection."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self.socket = socket.create_connection((parts.hostname, parts.port), timeout=300)
        self._read = self.socket.makefile("rb")

    def send(self, raw: bytes, *, half_close: bool = False) -> None:
        """Send bytes. A server that has already closed the connection may still have answered."""
        try:
            self.socket.sendall(raw)
            if half_close:
                self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def answer(self) -> Answer | None:
        """Return the next response, or None if the connection is closed instead."""
        try:
            line = self._read.readline()
            if not line:
                return None
            headers = {}
            while (header := self._read.readline().strip()) != b"":
                name, _, value = header.decode().partition(":")
                headers[name.lower()] = value.strip()
            return Answer(int(line.split()[1]), headers, self._read.read(int(headers.get("content-length", "0"))))
        except ConnectionError:
            return None

    def close(self) -> None:
        self._read.close()
        self.socket.close()


def post(body: bytes, *headers: str, path: str = "/invocations", content_type: str = "application/json") -> bytes:
    """Return a request as bytes."""
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*lines, *headers, "", ""]).encode() + body


def ask(address: str, raw: bytes, *, half_close: bool = False) -> Answer | None:
    """Send a request on its own connection, and return the response."""
    with closing(Talk(address)) as talk:
        talk.send(raw, half_close=half_close)
        return talk.answer()
