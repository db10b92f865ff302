"""The server's application: `GET /ping` and `POST /invocations`, as in SageMaker's containers.

Requests that arrive while the model runs are answered together in its next turn. With MiniLM on two cores, 16 clients
that send short texts get three times as many answers as one by one.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from models.server.access import LOOPBACK_NAMES

if TYPE_CHECKING:
    from models.inference.predictor import Predictor

MAX_BODY_BYTES = 6 * 2**20
"""Largest body that SageMaker passes to an endpoint."""
BODY_SECONDS = 30.0
MAX_INPUTS = 1024
"""Most inputs of one request. For more, predict a file."""
FIELDS = ("inputs", "parameters")
TURN_INPUTS = 128
"""Inputs from which a turn takes no further request."""

Waiting = tuple[Sequence[Any], Future[list[Any]]]
"""Tokenized inputs of a request, and its answers."""


class App(Starlette):
    """Application that serves one model. Until the model is set, it answers that the model is loading.

    Bodies are parsed and answers computed in threads, so that the server answers pings meanwhile.
    """

    def __init__(self, hosts: Sequence[str] = LOOPBACK_NAMES, token: str | None = None) -> None:
        unexpected = HTTPException(500, "an unexpected error occurred: see the server's log.")
        handlers: Any = {
            HTTPException: _error,
            ClientDisconnect: lambda request, error: Response(status_code=400),  # nobody reads it
            Exception: lambda request, error: _error(request, unexpected),
        }
        super().__init__(
            routes=[Route("/ping", self._ping), Route("/invocations", self._invocations, methods=["POST"])],
            middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)],
            exception_handlers=handlers,
        )
        self._token = token
        self._served: tuple[Predictor, Batcher] | None = None
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="reader")

    def serve(self, model: Predictor) -> None:
        """Set the model that answers requests from now on."""
        self._served = model, Batcher(model.answer_encoded)

    @property
    def is_loaded(self) -> bool:
        return self._served is not None

    def _loaded(self) -> tuple[Predictor, Batcher]:
        if self._served is None:
            raise HTTPException(503, "the model is loading: retry in a second.", {"Retry-After": "1"})
        return self._served

    async def _ping(self, request: Request) -> Response:
        self._loaded()
        return JSONResponse({})

    async def _invocations(self, request: Request) -> Response:
        model, batcher = self._loaded()
        if self._token is not None:
            given = request.headers.get("authorization", "").encode("latin-1")
            if not hmac.compare_digest(given, b"Bearer " + self._token.encode()):
                sentence = "the token is missing or wrong: send the header 'Authorization: Bearer TOKEN'."
                raise HTTPException(401, sentence, {"WWW-Authenticate": "Bearer"})
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise HTTPException(415, "Content-Type must be application/json.")
        body = await _body(request)
        examples = await asyncio.get_running_loop().run_in_executor(self._reader, _read, model, body)
        answers = await asyncio.wrap_future(batcher.submit(examples))
        try:
            return JSONResponse(answers)
        except ValueError:
            sentence = "the model's answer is not a finite number: check the model's weights, or use precision fp32."
            raise HTTPException(500, sentence) from None


class Batcher:
    """Runs a model in a thread of its own, with a predictor's `answer_encoded`."""

    def __init__(self, answer: Callable[[Sequence[Any]], list[Any]]) -> None:
        self._answer_all = answer
        self._waiting: SimpleQueue[Waiting] = SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    def submit(self, examples: Sequence[Any]) -> Future[list[Any]]:
        """Return the future answers, in order. They raise HTTPException if the model fails on the examples."""
        answers: Future[list[Any]] = Future()
        self._waiting.put((examples, answers))
        return answers

    def _run(self) -> None:
        while True:
            turn = [self._waiting.get()]
            while not self._waiting.empty() and sum(len(examples) for examples, _ in turn) < TURN_INPUTS:
                turn.append(self._waiting.get())
            self._answer([(examples, answers) for examples, answers in turn if answers.set_running_or_notify_cancel()])

    def _answer(self, turn: Sequence[Waiting]) -> None:
        """Answer the requests of a turn. If the model fails, each request runs alone, so only the faulty one fails."""
        try:
            made = iter(self._answer_all([example for examples, _ in turn for example in examples]))
        except BaseException as error:  # a panic in the Rust code of tokenizers is not an `Exception`
            if len(turn) > 1:
                for each in turn:
                    self._answer([each])
            else:
                traceback.print_exc(file=sys.stderr)
                failure = f"the model failed on this input: {type(error).__name__}: {error}"
                turn[0][1].set_exception(HTTPException(500, failure))
            return
        for examples, answers in turn:
            answers.set_result(list(islice(made, len(examples))))


async def _body(request: Request) -> bytes:
    """Return the body. One that is too long is read to its end, so that its sender gets to read the refusal."""
    chunks, size = [], 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                size += len(chunk)
                if size <= MAX_BODY_BYTES:
                    chunks.append(chunk)
    except TimeoutError:
        sentence = f"the body did not arrive within {BODY_SECONDS:.0f} s."
        raise HTTPException(408, sentence, {"Connection": "close"}) from None
    if size > MAX_BODY_BYTES:
        raise HTTPException(413, f"the body is too long: at most {MAX_BODY_BYTES} bytes (6 MiB), as on SageMaker.")
    return b"".join(chunks)


def _read(model: Predictor, body: bytes) -> Sequence[Any]:
    """Return the tokenized inputs of a body. Raises HTTPException."""
    try:
        inputs, parameters = parse_body(body)
        return model.encode(model.read(inputs, parameters))
    except ValueError as error:
        raise HTTPException(400, str(error)) from None


def parse_body(body: bytes) -> tuple[Any, Any]:
    """Return the inputs and the parameters of a body. Raises ValueError with one sentence."""
    try:
        document = json.loads(body.decode())
    except RecursionError:
        raise ValueError("the body is nested too deeply.") from None
    except ValueError as error:
        raise ValueError(f"the body is not JSON: {error}.") from None
    if not isinstance(document, dict):
        raise ValueError('the body must be an object such as {"inputs": "a text"}.')
    if unknown := [name for name in document if name not in FIELDS]:
        raise ValueError(f"unknown field {unknown[0][:60]!r}: use inputs and, optionally, parameters.")
    if "inputs" not in document:
        raise ValueError("inputs is missing: give a text, an object or a list of these.")
    inputs = document["inputs"]
    if isinstance(inputs, list) and len(inputs) > MAX_INPUTS:
        raise ValueError(f"inputs is a list of {len(inputs)}: a request may have at most {MAX_INPUTS} inputs.")
    return inputs, document.get("parameters")


def _error(request: Request, error: HTTPException) -> Response:
    """Return an error in the format of SageMaker's inference toolkit."""
    routes = ": use GET /ping or POST /invocations." if error.status_code in (404, 405) else ""
    body = {"code": error.status_code, "message": f"{error.detail}{routes}"}
    return JSONResponse(body, error.status_code, error.headers)
