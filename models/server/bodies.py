"""Receive the bodies of requests, within limits of time and memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from starlette.requests import Request

from models.server.errors import CLOSE, Header, Refused, busy
from models.server.request import MAX_BODY_BYTES, declared_bytes

BODY_SECONDS = 30.0
"""Longest time for a body to arrive."""
MAX_DRAINED_BYTES = 64 * 2**20
"""Most bytes that are read and discarded of a body that is too long, so that its sender gets to read the refusal."""
MAX_BUFFERED_BYTES = 96 * 2**20
"""Most bytes of large bodies in memory, from their arrival to the answer."""
ALWAYS_BYTES = 64 * 2**10
"""First bytes of each body, which do not count: large bodies never lock out clients with short texts."""


@dataclass
class _Body:
    """A body that is arriving."""

    chunks: list[bytes] = field(default_factory=list)
    total: int = 0
    """Bytes that have arrived."""
    counted: int = 0
    """Bytes that count towards the limit of all bodies."""


class Bodies:
    """The bodies in memory."""

    def __init__(self, max_bytes: int = MAX_BUFFERED_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0

    @asynccontextmanager
    async def received(self, request: Request) -> AsyncIterator[bytes]:
        """Yield a request's body, which counts until the context ends.

        Raises `Refused` if it is too long or too slow, or if too many others are in memory.
        """
        headers: Sequence[Header] = request.scope["headers"]
        declared = declared_bytes(headers)
        if declared is not None and declared > MAX_DRAINED_BYTES:
            raise _too_long(CLOSE)
        body = _Body()
        try:
            try:
                async with asyncio.timeout(BODY_SECONDS):
                    await self._read(request, body)
            except TimeoutError:
                raise Refused(408, f"the body did not arrive within {BODY_SECONDS:.0f} s.", CLOSE) from None
            yield b"".join(body.chunks)
        finally:
            self._release(body)

    async def _read(self, request: Request, body: _Body) -> None:
        async for chunk in request.stream():
            body.total += len(chunk)
            if body.total > MAX_DRAINED_BYTES:
                raise _too_long(CLOSE)
            if body.total > MAX_BODY_BYTES:
                self._release(body)
            else:
                self._hold(body, chunk)
        if body.total > MAX_BODY_BYTES:
            raise _too_long()

    def _hold(self, body: _Body, chunk: bytes) -> None:
        more = max(0, body.total - ALWAYS_BYTES) - body.counted
        if self._bytes + more > self._max_bytes:
            raise busy("too many long bodies are being received or answered: retry in a second.", CLOSE)
        self._bytes += more
        body.counted += more
        body.chunks.append(chunk)

    def _release(self, body: _Body) -> None:
        self._bytes -= body.counted
        body.counted = 0
        body.chunks.clear()


def _too_long(*headers: Header) -> Refused:
    return Refused(413, f"the body is too long: at most {MAX_BODY_BYTES} bytes (6 MiB), as on SageMaker.", *headers)
