"""A planned deployment: only read calls, and the requests that the deployment then sends."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from models.endpoints.protocol import EndpointSpec
from models.endpoints.sagemaker.endpoints import SageMakerEndpoints, open_endpoints
from tests.support.aws.account import BUCKET, Account
from training.contract.errors import EndpointTaken

Spec = Callable[..., EndpointSpec]
READS = re.compile(r"(GET|HEAD) .*|(Get|Head|List|Describe).*|POST /")
KINDS = {"CreateModel": "Model", "CreateEndpointConfig": "EndpointConfig", "CreateEndpoint": "Endpoint"}


def quiet(_: str) -> None:
    pass


@pytest.fixture
def planning(endpoints: SageMakerEndpoints, tmp_path: Path) -> SageMakerEndpoints:
    """The same account's endpoints, read-only."""
    return open_endpoints({"role": "trainer", "prices": str(tmp_path / "prices.json")}, quiet, is_read_only=True)


def sent(account: Account, kind: str) -> dict[str, Any]:
    """Return the only request of a kind, with its tags, except the time of the lifetime's end."""
    [name] = account.hosting.names()[kind]
    return comparable(account.hosting.request(kind, name), account.hosting.tags_of(kind, name))


def comparable(request: dict[str, Any], tags: dict[str, str]) -> dict[str, Any]:
    return {**request, "Tags": {name: value for name, value in tags.items() if name != "trainfare:expires"}}


def test_the_requests_of_a_plan_are_sent(
    planning: SageMakerEndpoints, endpoints: SageMakerEndpoints, account: Account, spec: Spec
) -> None:
    wanted = spec(lifetime_seconds=3600.0)
    before = len(account.calls)
    plan = planning.plan(wanted)
    assert [call for _, call in account.calls[before:] if not READS.fullmatch(call)] == []
    assert (plan.action, plan.missing_bucket) == ("create", BUCKET)
    assert account.hosting.names() == {}
    assert list(plan.uploads.values()) == [7000 + len(b"{}") + (wanted.model / "config.json").stat().st_size]

    endpoints.deploy(wanted, quiet)
    assert [operation for operation, _ in plan.requests] == list(KINDS)
    for operation, request in plan.requests:
        tags = {tag["Key"]: tag["Value"] for tag in request["Tags"]}
        assert sent(account, KINDS[operation]) == comparable(request, tags)
    again = planning.plan(wanted)
    assert (again.action, again.requests, again.uploads, again.missing_bucket) == ("keep", (), {}, None)


def test_another_model_is_refused_or_replaces_it(
    planning: SageMakerEndpoints, endpoints: SageMakerEndpoints, spec: Spec
) -> None:
    endpoints.deploy(spec(), quiet)
    with pytest.raises(EndpointTaken, match="serves 0123abc, not 4567def: use --replace true"):
        planning.plan(spec(run_id="4567def"))
    plan = planning.plan(spec(run_id="4567def", replace=True))
    assert (plan.action, plan.requests[-1][0]) == ("replace", "UpdateEndpoint")
