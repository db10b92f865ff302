"""A command killed with SIGKILL between two API calls: the same command continues, and leftovers are listed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from models.endpoints.protocol import EndpointSpec
from models.endpoints.sagemaker.endpoints import LEFT_OVER, SageMakerEndpoints
from tests.conftest import ROOT
from tests.support.aws.account import Account

pytestmark = pytest.mark.slow

Spec = Callable[..., EndpointSpec]
LEFT = {
    "after-call.sagemaker.CreateModel": (["Model"], LEFT_OVER),
    "after-call.sagemaker.CreateEndpointConfig": (["EndpointConfig", "Model"], LEFT_OVER),
    "after-call.sagemaker.CreateEndpoint": (["Endpoint", "EndpointConfig", "Model"], "Creating"),
}


def quiet(_: str) -> None:
    pass


@pytest.fixture(params=LEFT)
def left(request: pytest.FixtureRequest, account: Account, endpoints: SageMakerEndpoints, folder: Path) -> str:
    """Leftovers of the endpoint `emotion` after a killed command. Returns the status under which they are listed."""
    account.hosting.looks = 3
    event = str(request.param)
    command = [sys.executable, "-m", "tests.support.endpoints.deploys", str(folder), event]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=480, check=False)
    assert ended.returncode == -9, ended.stderr.decode()
    kinds, status = LEFT[event]
    assert list(account.hosting.names()) == kinds
    return status


def test_the_same_command_continues(left: str, account: Account, endpoints: SageMakerEndpoints, spec: Spec) -> None:
    assert endpoints.deploy(spec(), quiet).status == "InService"
    assert {kind: len(names) for kind, names in account.hosting.names().items()} == {
        "Endpoint": 1,
        "EndpointConfig": 1,
        "Model": 1,
    }
    assert [each for _, each in account.api.calls].count("CreateEndpoint") <= 2


def test_leftovers_are_listed_and_undeployed(
    left: str, account: Account, endpoints: SageMakerEndpoints, spec: Spec
) -> None:
    [state] = endpoints.endpoints()
    assert (state.name, state.status, state.run_id) == ("emotion", left, "0123abc")
    if left == LEFT_OVER:  # they block no other model
        assert endpoints.deploy(spec(run_id="9999fff"), quiet).run_id == "9999fff"
    endpoints.undeploy(state.name, quiet)
    assert account.hosting.names() == {}
    assert endpoints.endpoints() == []
