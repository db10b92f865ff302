"""Answers and refusals of the server, of a model whose pace the test sets."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvicorn

from models.server import app as app_module
from models.server.app import MAX_BODY_BYTES, MAX_INPUTS, App

JSON = {"Content-Type": "application/json"}
GOOD = b'{"inputs": "a"}'


@dataclass
class Doubling:
    """Doubles words. It waits at `slow` until it may go on, cannot double `bad`, and has no finite answer for `nan`."""

    encoded: int = 0
    """Requests that the server has read."""
    turns: list[list[str]] = field(default_factory=list)
    has_begun: threading.Event = field(default_factory=threading.Event)
    may_go_on: threading.Event = field(default_factory=threading.Event)

    def read(self, inputs: Any, parameters: Mapping[str, Any] | None) -> list[str]:
        if inputs == "odd":
            raise ValueError("inputs must be even, not odd")
        return inputs if isinstance(inputs, list) else [inputs]

    def encode(self, examples: list[str]) -> list[str]:
        self.encoded += 1
        return examples

    def answer_encoded(self, words: list[str]) -> list[Any]:
        self.turns.append(words)
        if "slow" in words:
            self.has_begun.set()
            assert self.may_go_on.wait(30)
        if "bad" in words:
            raise ArithmeticError("cannot double bad")
        return [float("nan") if word == "nan" else 2 * word for word in words]


@contextmanager
def serving(app: App) -> Iterator[int]:
    """Serve in a thread. Yields the port."""
    server = uvicorn.Server(uvicorn.Config(app, http="h11", lifespan="off", log_level="critical"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture
def model() -> Iterator[Doubling]:
    """A model; its thread ends after the test."""
    model = Doubling()
    yield model
    model.may_go_on.set()


@pytest.fixture
def port(model: Doubling) -> Iterator[int]:
    """Port of a server of `model`."""
    app = App()
    app.serve(model)
    with serving(app) as port:
        yield port
        model.may_go_on.set()


@dataclass(frozen=True)
class Answer:
    """A response."""

    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def message(self) -> str:
        assert self.body["code"] == self.status
        return str(self.body["message"])


def send(
    connection: http.client.HTTPConnection,
    body: Any = GOOD,
    headers: Mapping[str, str] = JSON,
    path: str = "/invocations",
    method: str = "POST",
) -> Answer:
    """Send a request and return the response."""
    connection.request(method, path, body, dict(headers))
    response = connection.getresponse()
    return Answer(response.status, dict(response.headers.items()), json.loads(response.read()))


def ask(port: int, *arguments: Any, **options: Any) -> Answer:
    """Send a request on a connection of its own."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        return send(connection, *arguments, **options)


def inputs(value: Any) -> bytes:
    """Return a body."""
    return json.dumps({"inputs": value}).encode()


def ping(port: int) -> None:
    """Return when the server has noticed all that clients did before."""
    assert ask(port, path="/ping", method="GET").body == {}


def until_waiting(port: int, model: Doubling, count: int) -> None:
    """Wait until the server has read this many requests."""
    deadline = time.monotonic() + 60
    while model.encoded < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    ping(port)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"inputs=a", "the body is not JSON: Expecting value: line 1 column 1 (char 0)."),
        (b'{"inputs": "\xff"}', "the body is not JSON: 'utf-8' codec can't decode byte 0xff in position 12: "),
        (b'{"inputs": ' + b"[" * 100_000, "the body is nested too deeply."),
        (b'["a"]', 'the body must be an object such as {"inputs": "a text"}.'),
        (b'{"input": "a"}', "unknown field 'input': use inputs and, optionally, parameters."),
        (b'{"parameters": {}}', "inputs is missing: give a text, an object or a list of these."),
        (inputs(["a"] * 1025), "inputs is a list of 1025: a request may have at most 1024 inputs."),
        (inputs("odd"), "inputs must be even, not odd"),
    ],
    ids=lambda value: repr(value[:20]),
)
def test_a_bad_body_is_refused_in_one_sentence(port: int, body: bytes, sentence: str) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        answer = send(connection, body)
        assert answer.status == 400
        assert answer.message.startswith(sentence)
        assert send(connection).body == ["aa"]  # on the same connection


@pytest.mark.parametrize(
    ("request_", "status", "sentence"),
    [
        ({"path": "/nothing"}, 404, "Not Found: use GET /ping or POST /invocations."),
        ({"method": "GET"}, 405, "Method Not Allowed: use GET /ping or POST /invocations."),
        ({"headers": {"Content-Type": "text/csv"}}, 415, "Content-Type must be application/json."),
        ({"body": b"x" * (MAX_BODY_BYTES + 1)}, 413, "the body is too long: at most 6291456 bytes (6 MiB)"),
        ({"body": iter([b"x" * 2**20] * 7)}, 413, "the body is too long: at most 6291456 bytes (6 MiB)"),
    ],
    ids=["path", "method", "type", "long", "long in chunks"],
)
def test_the_status_fits_the_error(port: int, request_: dict[str, Any], status: int, sentence: str) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        answer = send(connection, **request_)
        assert answer.status == status
        assert answer.message.startswith(sentence)
        assert send(connection).body == ["aa"]


def test_the_largest_requests_are_answered(port: int) -> None:
    text = "a" * (MAX_BODY_BYTES - len(inputs("")))
    assert ask(port, inputs(text)).body == [2 * text]
    assert ask(port, inputs(["a"] * MAX_INPUTS)).body == ["aa"] * MAX_INPUTS
    assert ask(port, iter([GOOD[:5], GOOD[5:]]), {"Content-Type": "application/json; charset=utf-8"}).body == ["aa"]


def test_only_the_names_of_this_machine_are_served(port: int) -> None:
    """A web page could let its name point to this machine (DNS rebinding)."""
    for host in ("localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]:8080"):
        assert ask(port, headers=JSON | {"Host": host}).status == 200
    for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "", "[::2]"):
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
            connection.request("POST", "/invocations", GOOD, JSON | {"Host": host})
            assert connection.getresponse().status == 400


def test_a_request_needs_the_token(model: Doubling) -> None:
    app = App(("*",), "0123456789abcdef")
    app.serve(model)
    with serving(app) as port:
        for given in (None, "Bearer 0123456789abcdeX", "Bearer ", "0123456789abcdef", "Bearer \xff"):
            answer = ask(port, headers=JSON | ({"Authorization": given} if given is not None else {}))
            assert answer.status == 401
            assert answer.message == ("the token is missing or wrong: send the header 'Authorization: Bearer TOKEN'.")
        headers = JSON | {"Authorization": "Bearer 0123456789abcdef", "Host": "models.example.org"}
        assert ask(port, headers=headers).body == ["aa"]
    assert model.turns == [["a"]]


def test_until_the_model_is_loaded_clients_shall_retry() -> None:
    with serving(App()) as port:
        for answer in (ask(port), ask(port, path="/ping", method="GET")):
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            assert answer.message == "the model is loading: retry in a second."


def test_requests_that_arrive_while_the_model_runs_run_together(port: int, model: Doubling) -> None:
    """Meanwhile the server answers pings and bad requests."""
    with ThreadPoolExecutor(4) as clients:
        first = clients.submit(ask, port, inputs("slow"))
        assert model.has_begun.wait(30)
        rest = [clients.submit(ask, port, inputs([word, "z"])) for word in ("b", "c", "d")]
        assert ask(port, inputs("odd")).status == 400
        until_waiting(port, model, 4)
        model.may_go_on.set()
        assert first.result().body == ["slowslow"]
        assert [each.result().body for each in rest] == [["bb", "zz"], ["cc", "zz"], ["dd", "zz"]]
    assert [sorted(turn) for turn in model.turns] == [["slow"], ["b", "c", "d", "z", "z", "z"]]


def test_a_failure_of_the_model_affects_only_its_request(port: int, model: Doubling) -> None:
    with ThreadPoolExecutor(3) as clients:
        clients.submit(ask, port, inputs("slow"))
        assert model.has_begun.wait(30)
        bad, good = clients.submit(ask, port, inputs("bad")), clients.submit(ask, port, inputs("c"))
        until_waiting(port, model, 3)
        model.may_go_on.set()
        assert good.result().body == ["cc"]
        assert bad.result().status == 500
        assert bad.result().message == "the model failed on this input: ArithmeticError: cannot double bad"
    answer = ask(port, inputs("nan"))
    assert (answer.status, answer.message[:41]) == (500, "the model's answer is not a finite number")
    assert ask(port).body == ["aa"]


def test_a_slow_client_is_refused(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_module, "BODY_SECONDS", 0.2)
    with begun(port) as connection:
        answer = b"".join(iter(lambda: connection.recv(4096), b""))  # until the server closes the connection
    assert b"HTTP/1.1 408" in answer
    assert b"the body did not arrive within 0 s." in answer
    assert ask(port).body == ["aa"]


@contextmanager
def begun(port: int) -> Iterator[socket.socket]:
    """Yield a connection on which a request has been sent without the end of its body."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        head = "POST /invocations HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: {len(GOOD)}\r\n\r\n".encode() + GOOD[:-1])
        yield connection
