"""HTTP connection of uvicorn, with JSON errors and time limits.

uvicorn's own protocol waits without limit for the head of a request, drops clients that close only their sending half,
and answers invalid HTTP in plain text.
"""

from __future__ import annotations

import asyncio
import re
import socket
import sys
from collections.abc import Iterable
from typing import Any

import h11
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol

from models.server.errors import CLOSE, JSON, Refused, busy, shown
from models.server.room import make_room_for_body, make_room_for_connection

HEAD_SECONDS = 20.0
"""Longest time for a request's head to arrive, from its first byte or from the start of the connection."""
UNREAD_SECONDS = 30
"""Longest time that a response may stay unread in the network's buffers."""
HEAD_BYTES = 16 * 1024
"""Longest head of a request. One of 64 KiB with thousands of headers takes 15 ms to parse."""
READ_BYTES = 16 * 1024
"""Most bytes that one read takes from a connection, so that no client keeps the event loop busy for long."""
MAX_CHUNKS_PER_READ = 256
"""Most chunks in one read of a chunked body. A body in chunks of one byte takes a hundred times longer to read."""
_CHUNK = re.compile(rb"\r\n(?=[0-9A-Fa-f]{1,16}(?:;[^\r\n]*)?\r\n)")
"""Start of a chunk. Neither headers nor a valid JSON body have hundreds of such lines, so every read is checked."""


class _Flow(FlowControl):
    """Flow control that reads no further request while earlier ones fill the buffer (pipelining)."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection.transport)
        # Not the connection itself, which refers to this object: a cycle would outlive it until a full collection.
        self._parser = connection.conn

    def resume_reading(self) -> None:
        if len(self._parser.trailing_data[0]) <= HEAD_BYTES:
            super().resume_reading()


class Connection(H11Protocol):
    """A client's connection."""

    _head_timer: asyncio.TimerHandle | None = None
    _waiting_since: float = 0.0
    _has_answered: bool = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection, unless too many are open."""
        super().connection_made(transport)
        self.flow = _Flow(self)
        transport.max_size = READ_BYTES  # type: ignore[attr-defined]
        raw: socket.socket = transport.get_extra_info("socket")
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_SECONDS * 1000)
        self._waiting_since = self.loop.time()
        if not make_room_for_connection(self, open_connections(self.connections)):
            self._refuse(busy("too many connections are open: retry in a second."))
        self._watch_head()

    def waits_for_client(self) -> bool:
        """Return whether the connection is idle, or has received only a part of a request."""
        return not self.has_open_request() or self.cycle.more_body

    def has_unfinished_body(self) -> bool:
        """Return whether a request's body is still arriving."""
        return self.has_open_request() and self.cycle.more_body

    @property
    def staleness(self) -> tuple[bool, float]:
        """Order in which connections give way: those without any answer first, then those that have waited longest."""
        return not self._has_answered, -self._waiting_since

    def give_way(self, reason: str) -> None:
        """Close the connection in favour of another. If it has a request, the answer states the reason."""
        if self.has_open_request():
            self._refuse(busy(f"{reason}, and this body is late: retry in a second."))
        else:
            self.transport.close()

    @property
    def client_address(self) -> str:
        """Address of the client, without its port."""
        return self.client[0] if self.client else ""

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer for the head."""
        self._unwatch_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read the next bytes."""
        if self.transport.is_closing():
            return
        if len(_CHUNK.findall(data)) > MAX_CHUNKS_PER_READ:
            self._refuse(Refused(400, "the chunks of the body are too small: send at least 64 bytes in each."))
            return
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._waiting_since = self.loop.time()
            if self.has_unfinished_body():
                make_room_for_body(self, open_connections(self.connections))
        self._watch_head()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answer a client that has closed only its sending half."""
        if self.has_open_request() and not self.cycle.more_body:
            self.cycle.keep_alive = False
            return True
        self.conn.receive_data(b"")
        try:
            self.conn.next_event()
        except h11.RemoteProtocolError as error:
            self._refuse(Refused(400, f"the request is incomplete: {error}."))
        return False

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._waiting_since = self.loop.time()
        self._has_answered = True
        self._watch_head()

    def send_400_response(self, msg: str) -> None:
        """Answer invalid HTTP with JSON, and close."""
        error = sys.exception()
        hint = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 400
        # An unknown transfer encoding (501) is a client error too.
        reason = shown(str(error or msg), 120)
        self._refuse(Refused(hint if hint < 500 else 400, f"the request is not valid HTTP: {reason}."))

    def _refuse(self, refused: Refused) -> None:
        """Answer and close. If a response has begun, only close."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = refused.body()
            headers: list[Any] = [JSON, CLOSE, (b"content-length", str(len(body)).encode()), *refused.headers]
            parts = (h11.Response(status_code=refused.status, headers=headers), h11.Data(data=body), h11.EndOfMessage())
            self.transport.write(b"".join(self.conn.send(part) or b"" for part in parts))
        if self.has_open_request():
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()

    def has_open_request(self) -> bool:
        """Return whether a request is being received or answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def _watch_head(self) -> None:
        if self.has_open_request() or self.timeout_keep_alive_task is not None:
            self._unwatch_head()
        elif self._head_timer is None and not self.transport.is_closing():
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self._head_is_late)

    def _unwatch_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        if not self.has_open_request():
            self._refuse(Refused(408, f"no complete request head arrived within {HEAD_SECONDS:.0f} s."))


def open_connections(connections: Iterable[object]) -> list[Connection]:
    """Return the connections of a server that are not closing."""
    return [each for each in connections if isinstance(each, Connection) and not each.transport.is_closing()]


def is_answering(connections: Iterable[object]) -> bool:
    """Return whether a request that has arrived completely is being answered."""
    return any(isinstance(each, Connection) and not each.waits_for_client() for each in connections)
