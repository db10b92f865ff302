"""Predictions of an endpoint, and their errors."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from models.endpoints.protocol import EndpointSpec
from models.endpoints.sagemaker.endpoints import SageMakerEndpoints
from tests.support.aws.account import Account
from tests.support.aws.api import THROTTLED, ApiError, Dropped
from tests.support.aws.hosting import Hosting, Serve
from training.contract.errors import (
    AccessError,
    EndpointFailed,
    EndpointNotFound,
    InputError,
    TrainfareError,
    Unreachable,
)
from training.services.sagemaker import clients

Spec = Callable[..., EndpointSpec]
LOG = r"\(log: https://us-east-1\.console.*emotion\)"


def answering(status: int, content: bytes) -> Serve:
    return lambda *_: (status, content)


@pytest.fixture
def deployed(endpoints: SageMakerEndpoints, spec: Spec, monkeypatch: pytest.MonkeyPatch) -> SageMakerEndpoints:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    endpoints.deploy(spec(), lambda _: None)
    return endpoints


BAD_REQUEST = json.dumps({"code": 400, "type": "BadRequest", "message": "inputs is 3,\nnot a text."}).encode()


def test_refusals_of_the_container_are_reported(deployed: SageMakerEndpoints, account: Account) -> None:
    rejected, failed = r"^Endpoint emotion rejected the request with status", r"^Endpoint emotion failed with status"
    for status, content, kind, message in (
        (400, BAD_REQUEST, InputError, rf"{rejected} 400: inputs is 3, not a text {LOG}\.$"),
        (413, b"too large", InputError, rf"{rejected} 413: too large {LOG}\.$"),
        (500, b"", EndpointFailed, rf"{failed} 500: Received client .* {LOG}\.$"),
        (507, b'{"message": 1}', EndpointFailed, rf"{failed} 507: 1 {LOG}\.$"),
    ):
        account.hosting.serve = answering(status, content)
        with pytest.raises(kind, match=message):
            deployed.predict("emotion", b"{}")


@pytest.mark.slow
def test_refusals_of_sagemaker_are_reported(deployed: SageMakerEndpoints, account: Account) -> None:
    refused: tuple[tuple[Exception, type[Exception], str], ...] = (
        (THROTTLED, Unreachable, "Endpoint emotion: AWS throttles the calls"),
        (Dropped(), Unreachable, "Endpoint emotion: AWS does not answer"),
        (
            ApiError("ModelNotReadyException", "Loading", 429),
            Unreachable,
            rf"^Endpoint emotion is not ready: .* {LOG}",
        ),
        (ApiError("ServiceUnavailable", "", 503), Unreachable, "Endpoint emotion is not ready"),
        (ApiError("AccessDeniedException", "no", 403), AccessError, "Endpoint emotion: access is denied: no"),
        (
            ApiError("ValidationError", "Body is empty"),
            InputError,
            "Endpoint emotion: SageMaker rejected the request",
        ),
        (ApiError("InternalFailure", "oh", 500), TrainfareError, "Endpoint emotion: InternalFailure: oh"),
    )
    for error, kind, message in refused:
        account.runtime.faults.add("InvokeEndpoint", error)
        with pytest.raises(kind, match=message):
            deployed.predict("emotion", b"{}")


def test_an_unknown_endpoint_is_reported(endpoints: SageMakerEndpoints) -> None:
    for ask in (
        lambda: endpoints.predict("none", b"{}"),
        lambda: endpoints.describe("none"),
        lambda: endpoints.undeploy("none", lambda _: None),
    ):
        with pytest.raises(
            EndpointNotFound, match=r"^Endpoint none does not exist on SageMaker in this account and reg"
        ):
            ask()


def test_an_endpoint_that_is_not_in_service_is_reported(deployed: SageMakerEndpoints, account: Account) -> None:
    hosted = account.hosting.kinds["Endpoint"]["emotion"]
    hosted.status, hosted.looks = "Creating", 5
    with pytest.raises(EndpointFailed, match=rf"^Endpoint emotion is Creating and does not answer {LOG}\.$"):
        deployed.predict("emotion", b"{}")
    hosted.status, hosted.reason = "Failed", "CapacityError: none."
    with pytest.raises(EndpointFailed, match=r"^Endpoint emotion is Failed and does not answer: CapacityError: none"):
        deployed.predict("emotion", b"{}")


@pytest.mark.slow
def test_a_slow_model_is_asked_once(
    endpoints: SageMakerEndpoints, spec: Spec, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other errors are retried, up to AWS_MAX_ATTEMPTS."""
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "4")
    monkeypatch.setitem(clients.READ_SECONDS, clients.RUNTIME, 5)
    asked: list[bytes] = []
    is_over = threading.Event()

    def serve(_: Hosting, __: Mapping[str, Any], body: bytes) -> tuple[int, bytes]:
        asked.append(body)
        if body == b"slow":
            is_over.wait(120)
        return 200, body

    account.hosting.serve = serve
    endpoints.deploy(spec(), lambda _: None)
    with pytest.raises(Unreachable, match=rf"has not answered within 5 s, and the request was not repeated: .* {LOG}"):
        endpoints.predict("emotion", b"slow")
    account.runtime.faults.add("InvokeEndpoint", Dropped(), ApiError("ServiceUnavailable", "", 503))
    assert endpoints.predict("emotion", b"quick") == b"quick"
    assert asked == [b"slow", b"quick"]
    is_over.set()


def test_the_client_waits_longer_than_a_model_may_take() -> None:
    """SageMaker ends a request after 60 s; AWS recommends 70 s (botocore's documentation of InvokeEndpoint)."""
    assert clients.READ_SECONDS[clients.RUNTIME] == 70
