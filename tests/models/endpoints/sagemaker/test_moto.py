"""Endpoints on moto's SageMaker, which creates them immediately and answers `body`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import boto3
import pytest

from models.endpoints.protocol import EndpointSpec
from models.endpoints.sagemaker.endpoints import SageMakerEndpoints
from tests.models.endpoints.sagemaker.conftest import opened
from tests.support.aws.account import Account


@pytest.fixture
def at_moto(
    endpoints: SageMakerEndpoints, account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> SageMakerEndpoints:
    monkeypatch.delenv("AWS_ENDPOINT_URL_SAGEMAKER")
    monkeypatch.delenv("AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME")
    return opened(tmp_path)


def listed() -> dict[str, int]:
    client = boto3.client("sagemaker")
    return {
        "Models": len(client.list_models()["Models"]),
        "EndpointConfigs": len(client.list_endpoint_configs()["EndpointConfigs"]),
        "Endpoints": len(client.list_endpoints()["Endpoints"]),
    }


@pytest.mark.slow
def test_endpoints_answer_until_they_are_undeployed(
    at_moto: SageMakerEndpoints, spec: Callable[..., EndpointSpec]
) -> None:
    for name in ("emotion", "emotion-2"):
        assert at_moto.deploy(spec(name=name), lambda _: None).status == "InService"
    assert at_moto.deploy(spec(), lambda _: None).run_id == "0123abc"
    assert listed() == {"Models": 2, "EndpointConfigs": 2, "Endpoints": 2}
    assert at_moto.predict("emotion", b'{"inputs": "Winter is coming and it will be dark soon."}') == b"body"
    assert sorted(each.name for each in at_moto.endpoints()) == ["emotion", "emotion-2"]
    boto3.client("sagemaker").delete_endpoint(EndpointName="emotion-2")
    assert {each.name: each.status for each in at_moto.endpoints()} == {"emotion": "InService", "emotion-2": "LeftOver"}
    for name in ("emotion", "emotion-2"):
        at_moto.undeploy(name, lambda _: None)
    assert listed() == {"Models": 0, "EndpointConfigs": 0, "Endpoints": 0}
