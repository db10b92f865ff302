"""HTTP connection of uvicorn, with JSON errors and time limits.

uvicorn's own protocol waits without limit for the head of a request, drops clients that close only their sending half,
and answers invalid HTTP in plain text.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections import Counter
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from models.server.errors import CLOSE, JSON, Refused, busy, shown

HEAD_SECONDS = 20.0
"""Longest time for a request's head to arrive, from its first byte or from the start of the connection."""
UNREAD_SECONDS = 30
"""Longest time that a response may stay unread in the network's buffers."""
MAX_CONNECTIONS = 512
"""Most open connections. For a further one, an idle connection of the client with the most idle ones is closed."""


class Connection(H11Protocol):
    """A client's connection."""

    _head_timer: asyncio.TimerHandle | None = None
    _idle_since: float = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection, unless too many are open."""
        super().connection_made(transport)
        raw: socket.socket = transport.get_extra_info("socket")
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_SECONDS * 1000)
        self._idle_since = self.loop.time()
        if len(self.connections) > MAX_CONNECTIONS and not self._close_an_idle_one():
            self._refuse(busy("too many connections are open: retry in a second."))
        self._watch_head()

    def _close_an_idle_one(self) -> bool:
        """Close the longest idle connection of the client with the most idle ones. Return False if none is idle."""
        others = [each for each in self.connections if isinstance(each, Connection) and each is not self]
        idle = [each for each in others if not each.has_open_request()]
        if not idle:
            return False
        counts = Counter(each.client_address for each in idle)
        chosen = max(idle, key=lambda each: (counts[each.client_address], -each.idle_since))
        chosen.transport.close()
        return True

    @property
    def client_address(self) -> str:
        """Address of the client, without its port."""
        return self.client[0] if self.client else ""

    @property
    def idle_since(self) -> float:
        """Time of the last response or of the connection's start, in seconds of the event loop's clock."""
        return self._idle_since

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer for the head."""
        self._unwatch_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read the next bytes."""
        if self.transport.is_closing():
            return
        super().data_received(data)
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
        self._idle_since = self.loop.time()
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
