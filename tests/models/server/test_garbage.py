"""Collections of garbage between requests."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import subprocess
import sys
import weakref
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from models.server.app import App
from models.server.connection import Connection, is_answering
from models.server.garbage import DUE
from tests.conftest import ROOT

CONNECTIONS = 20
PROGRAM = f"""
import asyncio, gc, json
from models.server.garbage import LOOK_SECONDS, collect_between_requests, postpone_full_collections

full, answering = [], True
gc.callbacks.append(lambda phase, about: full.append(phase) if about["generation"] == 2 else None)

async def look():
    await asyncio.sleep(5 * LOOK_SECONDS)
    return len(full)

async def main():
    postpone_full_collections()
    full.clear()
    task = asyncio.create_task(collect_between_requests(lambda: answering))
    counts = [await look()]
    for _ in range({DUE}):
        gc.collect(1)
    counts.append(await look())
    globals()["answering"] = False
    while not full:
        await asyncio.sleep(LOOK_SECONDS)
    print(json.dumps([*counts, gc.get_count()[2]]))

asyncio.run(main())
"""


def test_a_due_collection_waits_until_no_request_is_being_answered() -> None:
    program = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(program.stdout) == [0, 0, 0]


class Echo:
    """A model that answers with its input."""

    def read(self, inputs: object, parameters: Mapping[str, Any]) -> Sequence[Any]:
        return [inputs]

    def encode(self, examples: Sequence[Any]) -> Sequence[Any]:
        return examples

    def run(self, encoded: Sequence[Any]) -> Sequence[Any]:
        return encoded


@contextlib.asynccontextmanager
async def listening(state: ServerState) -> AsyncIterator[int]:
    """Serve in this process, and yield the port."""
    app = App()
    app.serve(Echo())
    config = uvicorn.Config(app, http=Connection, lifespan="off", log_level="error", access_log=False)
    config.load()
    server = await asyncio.get_running_loop().create_server(lambda: Connection(config, state, {}), "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"POST /invocations HTTP/1.1\r\nHost: localhost\r\n",
        b"GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /invocations HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
    ],
    ids=["idle", "unfinished head", "answered", "unfinished body"],
)
def test_a_lost_connection_is_freed_without_a_full_collection(raw: bytes) -> None:
    state = ServerState()

    async def lose() -> list[weakref.ref[Any]]:
        async with listening(state) as port:
            streams = [await asyncio.open_connection("127.0.0.1", port) for _ in range(CONNECTIONS)]
            for _, writer in streams:
                writer.write(raw)
                await writer.drain()
            async with asyncio.timeout(30):
                while len(state.connections) < CONNECTIONS or is_answering(state.connections):
                    await asyncio.sleep(0.05)
            await asyncio.sleep(0.2)  # for bytes that are still under way
            connections = [weakref.ref(each) for each in state.connections]
            assert len(connections) == CONNECTIONS
            for _, writer in streams:
                writer.close()
            while state.connections or state.tasks:
                await asyncio.sleep(0.05)
            await asyncio.sleep(0.2)
            return [each for each in connections if each() is not None]

    gc.collect()
    gc.disable()
    try:
        assert len(asyncio.run(lose())) == 0
    finally:
        gc.enable()
