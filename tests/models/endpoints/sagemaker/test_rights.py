"""The permissions for endpoints in docs/aws.md equal the calls that are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from models.endpoints.protocol import EndpointSpec
from models.endpoints.sagemaker.endpoints import SageMakerEndpoints
from tests.models.endpoints.sagemaker.conftest import QUICK
from tests.support.aws.account import ACCOUNT, Account
from tests.support.aws.rights import ACTIONS, actions
from training.contract.errors import EndpointFailed
from training.services.sagemaker.aws_context import open_aws_context
from training.services.sagemaker.clients import Clients

UNSEEN = {
    "iam:PassRole": "checked by SageMaker in CreateModel",
    "s3:AbortMultipartUpload": "called where an upload in parts fails",
    "pricing:GetProducts": "moto has no price list; the call is in training/services/sagemaker/prices.py",
}
"""Rights that no call of the recorded commands shows, and why they are needed."""


def test_endpoints_need_only_the_documented_permissions(
    endpoints: SageMakerEndpoints, account: Account, spec: Callable[..., EndpointSpec]
) -> None:
    called: set[str] = set()

    def note(model: Any, **_: Any) -> None:
        action = f"{model.service_model.signing_name}:{model.name}"
        called.add(ACTIONS.get(action, action))

    clients = Clients()
    clients.session.events.register("before-call", note)
    recorded = SageMakerEndpoints(
        clients, account=ACCOUNT, aws_context=lambda: open_aws_context({"role": "trainer"}, clients), waiting=QUICK
    )
    recorded.deploy(spec(lifetime_seconds=60.0), lambda _: None)
    recorded.deploy(spec(run_id="9999fff", replace=True), lambda _: None)
    recorded.predict("emotion", b"{}")
    account.hosting.failure, account.hosting.looks = "no", 3
    for wait_seconds in (0.0, 20.0):
        with pytest.raises(EndpointFailed):
            recorded.deploy(spec(name="failing", wait_seconds=wait_seconds), lambda _: None)
    recorded.endpoints()
    recorded.undeploy("emotion", lambda _: None)
    assert called == set(actions("endpoints")) - set(UNSEEN)


def test_no_permission_has_a_wildcard() -> None:
    assert not [action for action in actions("endpoints") if "*" in action]
