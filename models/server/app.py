"""What the server answers, as an ASGI application: `GET /ping` and `POST /invocations`, as SageMaker's containers."""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from models.server.batcher import Batcher
from models.server.errors import CLOSE, JSON, Header, Refused, busy
from models.server.request import MOST_BODY_BYTES, check_head, declared_bytes, parsed

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]

METHODS = {"/ping": ("GET", "HEAD"), "/invocations": ("POST",)}
BODY_SECONDS = 30.0
"""Within which a body must have come."""
MOST_DRAINED_BYTES = 64 * 2**20
"""How much of a body that is too long is read and dropped, so that its sender reads the refusal."""
MOST_HELD_BYTES = 96 * 2**20
"""Of bodies, all requests together."""
QUICK_BYTES = 16 * 2**10
"""A body up to here is tokenised at once; a longer one in a thread, so that others are read meanwhile."""


class Model(Protocol):
    """What of a predictor the server calls (`models.inference.predictor`)."""

    def read(self, inputs: object, parameters: Mapping[str, Any]) -> Sequence[Any]:
        """Return the examples of a request. Raises `ValueError` with one sentence on what is wrong."""

    def encode(self, examples: Sequence[Any]) -> Sequence[Any]:
        """Return them as tokens."""

    def run(self, encoded: Sequence[Any]) -> Sequence[Any]:
        """Return the answers of one batch."""


class App:
    """Answers for a model; until it is given one, it says that it is loading."""

    def __init__(self) -> None:
        self._model: Model | None = None
        self._batcher: Batcher | None = None
        self._held_bytes = 0
        self._tokenizing = ThreadPoolExecutor(1, thread_name_prefix="tokenizer")

    def serve(self, model: Model) -> None:
        """Answer for this model from now on."""
        self._batcher = Batcher(model.run)
        self._model = model

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request, whatever it is."""
        headers: Sequence[Header] = ()
        try:
            status, body = 200, await self._answer(scope, receive)
        except _Gone:
            return
        except Refused as refused:
            status, body, headers = refused.status, refused.body(), refused.headers
        except Exception:
            traceback.print_exc(file=sys.stderr)
            status, body = 500, Refused(500, "the server failed on this request; its log tells why.").body()
        length = (b"content-length", str(len(body)).encode())
        await send({"type": "http.response.start", "status": status, "headers": [JSON, length, *headers]})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Mapping[str, Any], receive: Receive) -> bytes:
        path, method = scope["path"], scope["method"]
        if path not in METHODS:
            raise Refused(404, "no such path: there are GET /ping and POST /invocations.")
        if method not in METHODS[path]:
            allowed = ", ".join(METHODS[path])
            raise Refused(405, f"{path} is asked with {METHODS[path][0]}.", (b"allow", allowed.encode()))
        if self._model is None or self._batcher is None:
            raise busy("the model is being loaded.")
        if path == "/ping":
            return b"{}"
        body = await self._body(scope["headers"], receive)
        inputs, parameters = parsed(body)
        encoded = await self._encoded(self._model, inputs, parameters, len(body))
        answers = await self._batcher.answers(encoded)
        try:
            return json.dumps(answers, allow_nan=False).encode()
        except ValueError:
            raise Refused(500, "the model's answer is not a number: its weights or its precision are broken.") from None

    async def _body(self, headers: Sequence[Header], receive: Receive) -> bytes:
        """Return the body. Raises `Refused` where it is too long, too slow or of another kind than JSON."""
        declared = declared_bytes(headers)
        if declared is not None and declared > MOST_DRAINED_BYTES:
            raise _too_long(CLOSE)
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await self._read(receive)
        except TimeoutError:
            raise Refused(408, f"the body has not come within {BODY_SECONDS:.0f} s.", CLOSE) from None
        check_head(headers)
        return body

    async def _read(self, receive: Receive) -> bytes:
        chunks: list[bytes] = []
        total = held = 0
        try:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise _Gone
                chunk: bytes = message.get("body", b"")
                total += len(chunk)
                if total > MOST_DRAINED_BYTES:
                    raise _too_long(CLOSE)
                if total <= MOST_BODY_BYTES:
                    self._hold(len(chunk))
                    held += len(chunk)
                    chunks.append(chunk)
                else:
                    chunks.clear()
                if not message.get("more_body", False):
                    break
        finally:
            self._held_bytes -= held
        if total > MOST_BODY_BYTES:
            raise _too_long()
        return b"".join(chunks)

    def _hold(self, count: int) -> None:
        if self._held_bytes + count > MOST_HELD_BYTES:
            raise Refused(503, "too many bodies are under way: ask again in a second.", (b"retry-after", b"1"), CLOSE)
        self._held_bytes += count

    async def _encoded(
        self, model: Model, inputs: object, parameters: Mapping[str, Any], size_bytes: int
    ) -> Sequence[Any]:
        def encode() -> Sequence[Any]:
            return model.encode(model.read(inputs, parameters))

        try:
            if size_bytes <= QUICK_BYTES:
                return encode()
            return await asyncio.get_running_loop().run_in_executor(self._tokenizing, encode)
        except ValueError as error:
            raise Refused(400, str(error)) from None


class _Gone(Exception):
    """Whoever asked has closed the connection."""


def _too_long(*headers: Header) -> Refused:
    return Refused(413, f"the body is longer than {MOST_BODY_BYTES} bytes (6 MiB), as on SageMaker.", *headers)
