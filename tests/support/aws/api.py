"""A simulated AWS API over HTTP (JSON 1.1). Calls are checked against the service's model and its further rules."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import boto3

from tests.support.aws.service_rules import errors_of, refusal
from tests.support.endpoints.served import Serving

Response = dict[str, Any]


class ApiError(Exception):
    """A response with an error and a status other than 200."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code, self.message, self.status = code, message, status


class Dropped(Exception):
    """A connection that is closed without a response. With `done`, the operation was executed anyway."""

    def __init__(self, *, done: bool = False) -> None:
        super().__init__()
        self.done = done


THROTTLED = ApiError("ThrottlingException", "Rate exceeded")
BROKEN = ApiError("InternalFailure", "We encountered an internal error. Please try again.", 500)
EXPIRED = ApiError("ExpiredTokenException", "The security token included in the request is expired")


class Faults:
    """Errors of the next calls of each operation."""

    def __init__(self) -> None:
        self._next: dict[str, deque[Exception]] = defaultdict(deque)
        self._always: dict[str, Exception] = {}
        self._lock = threading.Lock()

    def add(self, operation: str, *errors: Exception) -> None:
        """Queue errors for an operation, such as `DescribeTrainingJob`."""
        with self._lock:
            self._next[operation].extend(errors)

    def last(self, operation: str, error: Exception | None) -> None:
        """Raise the error in every future call of an operation. None stops that."""
        with self._lock:
            self._always.pop(operation, None)
            if error:
                self._always[operation] = error

    def clear(self) -> None:
        """Plan no more errors."""
        with self._lock:
            self._next.clear()
            self._always.clear()

    def meet(self, operation: str) -> Dropped | None:
        """Raise the operation's next error, if any. Return a `Dropped` with `done`, to be raised after the call."""
        with self._lock:
            queue = self._next[operation]
            error = queue.popleft() if queue else self._always.get(operation)
        if isinstance(error, Dropped) and error.done:
            return error
        if error:
            raise error
        return None


class Server(ThreadingHTTPServer):
    """HTTP server with a thread for each connection."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing about clients that were killed while they waited for a response."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """Handler of POST requests, which logs nothing."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # Otherwise a body waits 40 ms for the acknowledgement of its headers.

    def do_POST(self) -> None:
        self.answer(self.rfile.read(int(self.headers["Content-Length"])))

    def answer(self, body: bytes) -> None:
        raise NotImplementedError

    def send(self, status: int, content: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


class Api(Serving):
    """HTTP server for operations. Each operation is a function of its parameters."""

    def __init__(self, service: str, operations: Mapping[str, Callable[[Mapping[str, Any]], Response]]) -> None:
        self._operations = operations
        self._model = boto3.client(service, region_name="us-east-1").meta.service_model
        self.faults = Faults()
        self.calls: list[tuple[float, str]] = []
        """Time (monotonic, seconds) and operation of every call."""
        self.expired_keys: set[str] = set()
        """Access keys whose credentials have expired."""
        super().__init__(Server(("127.0.0.1", 0), self._handler()))

    def answer(self, operation: str, parameters: Mapping[str, Any]) -> Response:
        """Return the response to a call. Raises ApiError or Dropped."""
        self.calls.append((time.monotonic(), operation))
        dropped = self.faults.meet(operation)
        if operation not in self._operations:
            raise ApiError("UnknownOperationException", operation)
        self.check(operation, parameters)
        response = self._operations[operation](parameters)
        if dropped:
            raise dropped
        return response

    def check(self, operation: str, parameters: Mapping[str, Any]) -> None:
        """Raise ApiError for a call that the service refuses whatever the state of the account."""
        shape = self._model.operation_model(operation).input_shape
        if message := errors_of(shape, parameters) or refusal(operation, parameters):
            raise ApiError("ValidationException", message)

    def _handler(self) -> type[Handler]:
        api = self

        class JsonHandler(Handler):
            def answer(self, body: bytes) -> None:
                operation = self.headers["X-Amz-Target"].partition(".")[2]
                try:
                    if any(f"Credential={key}/" in self.headers["Authorization"] for key in api.expired_keys):
                        raise EXPIRED
                    self._respond(200, api.answer(operation, json.loads(body or b"{}")))
                except ApiError as error:
                    self._respond(error.status, {"__type": error.code, "message": error.message})
                except Dropped:
                    self.close_connection = True

            def _respond(self, status: int, response: Response) -> None:
                content = json.dumps(response, default=_epoch).encode()
                self.send(status, content, {"Content-Type": "application/x-amz-json-1.1"})

        return JsonHandler


def _epoch(value: object) -> float:
    assert isinstance(value, datetime)
    return value.timestamp()
