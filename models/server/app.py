"""Routes of the server: `GET /ping` and `POST /invocations`, as in SageMaker's containers."""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from models.server.access import Access
from models.server.batcher import Batcher
from models.server.bodies import Bodies
from models.server.errors import Header, Refused, busy
from models.server.memory import give_back_memory
from models.server.request import check_head, parse_body

QUICK_BYTES = 2 * 2**10
"""Longest body that is parsed and tokenized in the event loop. A longer one could block other requests for more than
10 ms, whatever it contains, so it gets a thread."""
LARGE_BYTES = 128 * 2**10
"""A longer body takes hundreds of times its size to tokenize, so that memory is given back afterwards."""
MAX_LARGE = 2
"""Most large bodies that are tokenized or answered at the same time. Others wait in line."""


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
        handlers: Any = {HTTPException: _no_route, Refused: _refusal}
        super().__init__(routes=routes, exception_handlers=handlers)
        self.router.redirect_slashes = False
        self._model: Model | None = None
        self._batcher: Batcher | None = None
        self._bodies = Bodies()
        self._large = asyncio.Semaphore(MAX_LARGE)
        self._tokenizing = ThreadPoolExecutor(1, thread_name_prefix="tokenizer")
        self._tokenizing_large = ThreadPoolExecutor(1, thread_name_prefix="large")

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
        # Handled here, because Starlette takes longer, and closes the connection after an unexpected error.
        except Refused as refused:
            return _refusal(request, refused)
        except ClientDisconnect:
            return Response(status_code=400)  # Nobody reads it.
        except Exception:
            traceback.print_exc(file=sys.stderr)
            return _refusal(request, Refused(500, "an unexpected error occurred: see the server's log."))

    async def _answer(self, request: Request) -> bytes:
        if self._model is None or self._batcher is None:
            raise _loading()
        headers: Sequence[Header] = request.scope["headers"]
        self._access.check_host(headers)
        self._access.check_token(headers)
        async with self._bodies.received(request) as body:
            check_head(headers)
            async with self._large if len(body) > LARGE_BYTES else nullcontext():
                if len(body) > LARGE_BYTES and await request.is_disconnected():  # while it waited in line
                    raise ClientDisconnect
                answers = await self._batcher.answers(await self._encoded(self._model, body))
        try:
            return json.dumps(answers, allow_nan=False).encode()
        except ValueError:
            problem = "the model's answer is not a finite number: check the model's weights, or use precision fp32."
            raise Refused(500, problem) from None

    async def _encoded(self, model: Model, body: bytes) -> Sequence[Any]:
        def encode() -> Sequence[Any]:
            inputs, parameters = parse_body(body)
            return model.encode(model.read(inputs, parameters))

        def encode_large() -> Sequence[Any]:
            try:
                return encode()
            finally:
                give_back_memory()

        loop = asyncio.get_running_loop()
        try:
            if len(body) <= QUICK_BYTES:
                return encode()
            if len(body) <= LARGE_BYTES:
                return await loop.run_in_executor(self._tokenizing, encode)
            return await loop.run_in_executor(self._tokenizing_large, encode_large)
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


def _loading() -> Refused:
    return busy("the model is loading: retry in a second.")
