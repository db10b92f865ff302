"""Error messages for refusals, from real answers over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from mlflow import MlflowClient

from tests.support.endpoints.served import Serving
from tracking.server.store import Store, open_store
from training.contract.errors import NotAllowed, TrackingError


@contextmanager
def answering(status: int, body: str) -> Iterator[str]:
    """Yield the address of a server that gives the same answer to every call."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    with Serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        yield server.url


@pytest.fixture(autouse=True)
def _nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("USERNAME", "PASSWORD", "TOKEN"):
        monkeypatch.delenv(f"MLFLOW_TRACKING_{name}", raising=False)


NO_NAME: dict[str, str] = {}
ADA = {"MLFLOW_TRACKING_USERNAME": "ada", "MLFLOW_TRACKING_PASSWORD": "secret words"}


@pytest.mark.parametrize(
    ("status", "body", "variables", "message"),
    [
        (401, "You are not authenticated.", NO_NAME, "requires a user name (401): set MLFLOW_TRACKING_USERNAME and"),
        (401, "You are not authenticated.", ADA, "does not accept the password of user 'ada' (401): "),
        (
            403,
            "Permission denied",
            ADA,
            "does not let user 'ada' read the experiment (403): the permission READ on it (EDIT to train in it) is "
            "missing; an administrator of the server can grant it",
        ),
        (
            403,
            json.dumps({"error_code": "PERMISSION_DENIED", "message": "User x may not sagemaker-mlflow:CreateRun"}),
            ADA,
            "refused (403): PERMISSION_DENIED: User x may not sagemaker-mlflow:CreateRun",
        ),
        (404, "<html>Not Found</html>", ADA, "refused: API request to endpoint"),
    ],
)
def test_a_refusal_is_reported_at_once_in_one_sentence(
    status: int, body: str, variables: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    slept: list[float] = []
    with answering(status, body) as uri:
        with pytest.raises(NotAllowed if status in (401, 403) else TrackingError) as refused:
            open_store(uri)
        with pytest.raises(TrackingError):
            Store(MlflowClient(uri), sleep=slept.append).call(MlflowClient(uri).get_run, "0" * 32)
    sentence = str(refused.value)
    assert sentence.startswith(f"The tracking server {uri} {message}")
    assert sentence.endswith(". Nothing was started.")
    assert "\n" not in sentence
    assert "secret" not in sentence
    assert slept == []


def test_the_user_name_in_the_address_takes_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "ada")
    with answering(401, "no") as uri, pytest.raises(NotAllowed) as refused:
        open_store(uri.replace("://", "://grace:hop%20per@"))
    assert "the password of user 'grace' (401)" in str(refused.value)
    assert "hop" not in str(refused.value)


@pytest.mark.parametrize("status", [429, 503])
def test_transient_errors_are_retried(status: int) -> None:
    slept: list[float] = []
    with answering(status, "later") as uri:
        store = Store(
            MlflowClient(uri),
            retry_seconds=2,
            echo=lambda _: None,
            sleep=slept.append,
            clock=lambda: sum(slept),
        )
        with pytest.raises(TrackingError, match=rf"has not answered for 2 s: .* {status} "):
            store.call(store.client.search_experiments)
    assert len(slept) > 1
