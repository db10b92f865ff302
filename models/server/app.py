"""Routes of the server: `GET /ping` and `POST /invocations`, as in SageMaker's containers."""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from models.server.access import Access
from models.server.batcher import Batcher
from models.server.errors import CLOSE, Header, Refused, busy
from models.server.memory import give_back_memory
from models.server.request import MAX_BODY_BYTES, check_head, declared_bytes, parse_body

BODY_SECONDS = 30.0
"""Longest time for a body to arrive."""
MAX_DRAINED_BYTES = 64 * 2**20
"""Most bytes that are read and discarded of a body that is too long, so that its sender gets to read the refusal."""
MAX_BUFFERED_BYTES = 96 * 2**20
"""Most bytes in memory for all bodies that are being received."""
QUICK_BYTES = 16 * 2**10
"""Longest body that is parsed in the event loop. A longer one would block other requests, so it gets a thread."""
LARGE_BYTES = 2**20
"""A longer body takes hundreds of times its size to tokenize, so that memory is given back afterwards."""


class Model(Protocol):
    """The calls of a predictor (`models.inference.predictor`) that the server needs."""

    def read(self, inputs: object, parameters: Mapping[str, Any]) -> Sequence[Any]:
        """Return the examples of a request. Raises `ValueError` with one sentence that describes the error."""

    def encode(self, examples: Sequence[Any]) -> Sequence[Any]:
        """Return the examples as tokens."""

    def run(self, encoded: Sequence[Any]) -> Sequence[Any]:
        """Return the answers of one batch."""


class App(Starlette):
    """Application that serves one model. Until the model is set, it answers that the model is loading."""

    def __init__(self, access: Access | None = None) -> None:
        self._access = access or Access()
        routes = [Route("/ping", self._ping), Route("/invocations", self._invocations, methods=["POST"])]
        handlers: Any = {HTTPException: _no_route, Refused: _refusal, ClientDisconnect: _disconnected}
        super().__init__(routes=routes, exception_handlers=handlers)
        self.router.redirect_slashes = False
        self._model: Model | None = None
        self._batcher: Batcher | None = None
        self._buffered_bytes = 0
        self._tokenizing = ThreadPoolExecutor(1, thread_name_prefix="tokenizer")

    def serve(self, model: Model) -> None:
        """Set the model that answers requests from now on."""
        self._batcher = Batcher(model.run)
        self._model = model

    async def _ping(self, request: Request) -> Response:
        self._access.check_host(request.scope["headers"])
        if self._model is None:
            raise _loading()
        return _json(b"{}")

    async def _invocations(self, request: Request) -> Response:
        try:
            return _json(await self._answer(request))
        except (Refused, ClientDisconnect):
            raise
        except Exception:
            # Handled here, because Starlette would close the connection.
            traceback.print_exc(file=sys.stderr)
            raise Refused(500, "an unexpected error occurred: see the server's log.") from None

    async def _answer(self, request: Request) -> bytes:
        if self._model is None or self._batcher is None:
            raise _loading()
        body = await self._body(request)
        encoded = await self._encoded(self._model, body)
        answers = await self._batcher.answers(encoded)
        try:
            return json.dumps(answers, allow_nan=False).encode()
        except ValueError:
            problem = "the model's answer is not a finite number: check the model's weights, or use precision fp32."
            raise Refused(500, problem) from None

    async def _body(self, request: Request) -> bytes:
        """Return the body. Raises `Refused` if it is too long, too slow or not JSON."""
        headers: Sequence[Header] = request.scope["headers"]
        self._access.check_host(headers)
        self._access.check_token(headers)
        declared = declared_bytes(headers)
        if declared is not None and declared > MAX_DRAINED_BYTES:
            raise _too_long(CLOSE)
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await self._read(request)
        except TimeoutError:
            raise Refused(408, f"the body did not arrive within {BODY_SECONDS:.0f} s.", CLOSE) from None
        check_head(headers)
        return body

    async def _read(self, request: Request) -> bytes:
        chunks: list[bytes] = []
        total = held = 0
        try:
            async for chunk in request.stream():
                total += len(chunk)
                if total > MAX_DRAINED_BYTES:
                    raise _too_long(CLOSE)
                if total <= MAX_BODY_BYTES:
                    self._reserve(len(chunk))
                    held += len(chunk)
                    chunks.append(chunk)
                else:
                    chunks.clear()
        finally:
            self._buffered_bytes -= held
        if total > MAX_BODY_BYTES:
            raise _too_long()
        return b"".join(chunks)

    def _reserve(self, count: int) -> None:
        if self._buffered_bytes + count > MAX_BUFFERED_BYTES:
            raise Refused(503, "too many bodies are being received: retry in a second.", (b"retry-after", b"1"), CLOSE)
        self._buffered_bytes += count

    async def _encoded(self, model: Model, body: bytes) -> Sequence[Any]:
        def encode() -> Sequence[Any]:
            inputs, parameters = parse_body(body)
            return model.encode(model.read(inputs, parameters))

        def encode_large() -> Sequence[Any]:
            try:
                return encode()
            finally:
                give_back_memory()

        try:
            if len(body) <= QUICK_BYTES:
                return encode()
            work = encode_large if len(body) > LARGE_BYTES else encode
            return await asyncio.get_running_loop().run_in_executor(self._tokenizing, work)
        except ValueError as error:
            raise Refused(400, str(error)) from None


def _json(body: bytes, status: int = 200) -> Response:
    return Response(body, status, media_type="application/json")


def _refusal(request: Request, refused: Refused) -> Response:
    response = _json(refused.body(), refused.status)
    response.raw_headers.extend(refused.headers)
    return response


def _no_route(request: Request, error: HTTPException) -> Response:
    if error.status_code != 405:
        return _refusal(request, Refused(404, "unknown path: use GET /ping or POST /invocations."))
    allowed = sorted((error.headers or {}).get("Allow", "").split(", "))
    sentence = f"{request.scope['path']} accepts {allowed[0]} requests only."
    return _refusal(request, Refused(405, sentence, (b"allow", ", ".join(allowed).encode())))


def _disconnected(request: Request, error: ClientDisconnect) -> Response:
    """Return a response for Starlette; nobody reads it, because the client has closed the connection."""
    return Response(status_code=400)


def _loading() -> Refused:
    return busy("the model is loading: retry in a second.")


def _too_long(*headers: Header) -> Refused:
    return Refused(413, f"the body is too long: at most {MAX_BODY_BYTES} bytes (6 MiB), as on SageMaker.", *headers)
