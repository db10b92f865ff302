"""`python -m tests.support.attacks.crowd ADDRESS`: clients of an endpoint, good and hostile, in one process.

Each line on standard input names an attack, a side of it (`hostile`, `harmless`, `good` or `nobody`) and seconds, as a
JSON list. For each line, the clients send for that time, and the process prints their `Outcome` as JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

ANSWER_SECONDS = 30.0
"""Longest time that a client waits for an answer."""
GRACE_SECONDS = 45.0
"""Time after a block for answers that are still missing."""
PIECES = 50
"""Pieces in which a slow client sends its request."""
LOST = "lost"


@dataclass(frozen=True, kw_only=True)
class Load:
    """Clients that send the same bytes again and again."""

    raw: bytes
    """Bytes of one request, or of several."""
    clients: int = 4
    """Clients at the same time; each has one connection."""
    per_second: float
    """Requests of all clients per second. A client whose answer is late sends the next request late."""
    act: str = "ask"
    """Way of sending: a key of `ACTS`."""
    hold_seconds: float = 0.0
    """Time that a client takes to send slowly, or keeps a connection open."""


@dataclass
class Outcome:
    """Answers of one block."""

    seconds: list[float] = field(default_factory=list)
    """Latencies of the answers."""
    answers: Counter[str] = field(default_factory=Counter)
    """Number of answers by status; `lost` counts missing ones."""


class Link:
    """A client's connection, opened again when the server has closed it."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self._host, self._port = str(parts.hostname), parts.port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return the open connection. A connection that the server has closed while it was idle is opened again."""
        if self._streams and (self._streams[0].at_eof() or self._streams[1].is_closing()):
            self.close()
        if not self._streams:
            self._streams = await asyncio.open_connection(self._host, self._port, limit=2**24)
        return self._streams

    async def send(self, raw: bytes) -> None:
        """Send bytes. A server that refuses early stops reading, so the bytes may not leave."""
        _, writer = await self.open()
        writer.write(raw)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(writer.drain(), ANSWER_SECONDS)

    async def answer(self) -> str:
        """Return the status of the next answer, and close if the server will. Return `lost` if it is missing."""
        assert self._streams
        reader = self._streams[0]
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), ANSWER_SECONDS)
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
            await asyncio.wait_for(reader.readexactly(length), ANSWER_SECONDS)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            self.close()
            return LOST
        if b"connection: close" in head.lower():
            self.close()
        return head.split()[1].decode()

    def close(self) -> None:
        """Close the connection at once."""
        if self._streams:
            self._streams[1].transport.abort()
            self._streams = None


async def ask(link: Link, load: Load) -> list[str]:
    """Send a request on the kept connection, and read its answer."""
    await link.send(load.raw)
    return [await link.answer()]


async def ask_anew(link: Link, load: Load) -> list[str]:
    """Send a request on a connection of its own, and read its answer."""
    statuses = await ask(link, load)
    link.close()
    return statuses


async def drop(link: Link, load: Load) -> list[str]:
    """Open a connection, send, and close it at once."""
    await link.send(load.raw)
    link.close()
    return []


async def hold(link: Link, load: Load) -> list[str]:
    """Open a connection, send, and keep it open without reading."""
    reader, writer = await link.open()
    reader._transport.pause_reading()  # type: ignore[attr-defined]
    writer.write(load.raw)
    await asyncio.sleep(load.hold_seconds)
    link.close()
    return []


async def drip(link: Link, load: Load) -> list[str]:
    """Send a request in small pieces, and read its answer."""
    size = -(-len(load.raw) // PIECES)
    for start in range(0, len(load.raw), size):
        await link.send(load.raw[start : start + size])
        await asyncio.sleep(load.hold_seconds / PIECES)
    return [await link.answer()]


ACTS: dict[str, Callable[[Link, Load], Awaitable[list[str]]]] = {
    "ask": ask,
    "ask_anew": ask_anew,
    "drop": drop,
    "hold": hold,
    "drip": drip,
}


async def crowd(address: str, load: Load, seconds: float) -> Outcome:
    """Run the clients of a load, and return their answers."""
    outcome, begin = Outcome(), time.monotonic()
    clients = [_client(address, load, begin, seconds, number, outcome) for number in range(load.clients)]
    tasks = [asyncio.create_task(client) for client in clients]
    _, late = await asyncio.wait(tasks, timeout=seconds + GRACE_SECONDS)
    outcome.answers[LOST] += len(late)
    for task in late:
        task.cancel()
    return outcome


async def _client(address: str, load: Load, begin: float, seconds: float, number: int, outcome: Outcome) -> None:
    link, due = Link(address), begin + number / load.per_second
    end = begin + seconds
    while due < end:
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        left = max(0.0, end - time.monotonic())
        current = replace(load, hold_seconds=min(load.hold_seconds, left))
        started = time.monotonic()
        try:
            statuses = await ACTS[load.act](link, current)
        except OSError:
            link.close()
            statuses = [LOST]
        outcome.answers.update(statuses)
        if any(status != LOST for status in statuses):
            outcome.seconds.append(time.monotonic() - started)
        due = max(due + load.clients / load.per_second, time.monotonic())
    link.close()


def main(address: str) -> None:
    """Run the loads named on standard input."""
    from tests.support.attacks.hostile import GOOD, attacks

    known = attacks()
    print("ready", flush=True)
    for line in sys.stdin:
        name, side, seconds = json.loads(line)
        if side == "nobody":
            outcome = Outcome()
        else:
            load = GOOD if side == "good" else getattr(known[name], side)
            outcome = asyncio.run(crowd(address, load, seconds))
        print(json.dumps(vars(outcome)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
