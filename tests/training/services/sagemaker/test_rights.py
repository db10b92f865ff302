"""The policies in docs/aws.md allow exactly the calls that are made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.aws.account import Account
from tests.support.aws.rights import ACTIONS, actions
from tests.support.services.following import RUNS_UNTIL_STOPPED, ended, running
from tests.support.services.harness import SageMakerHarness
from training.contract.errors import JobExists
from training.services.launcher import submit
from training.services.sagemaker.aws_context import open_aws_context
from training.services.sagemaker.clients import Clients
from training.services.sagemaker.service import SageMakerService

NOT_RECORDED = {
    "iam:PassRole": "checked by SageMaker in CreateTrainingJob",
    "sagemaker:AddTags": "checked by SageMaker in CreateTrainingJob if the request has tags",
    "s3:AbortMultipartUpload": "called if a multipart upload fails",
    "pricing:GetProducts": "moto has no price list; the call is in training/services/sagemaker/prices.py",
}
"""Permissions that no recorded call requires, each with its reason."""


def test_the_launcher_policy_allows_exactly_the_calls_of_a_launcher(account: Account, tmp_path: Path) -> None:
    harness = SageMakerHarness(tmp_path, account)
    account.clients["s3"].delete_bucket(Bucket=account.clients["s3"].list_buckets()["Buckets"][0]["Name"])
    called: set[str] = set()

    class Recorded(Clients):
        def __init__(self, region: str | None = None) -> None:
            super().__init__(region)
            self.session.events.register("before-call", self._note)

        def _note(self, model: Any, **_: Any) -> None:
            service = model.service_model.signing_name
            action = f"{service}:{model.name}"
            called.add(ACTIONS.get(action, action))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("training.services.sagemaker.aws_context.Clients", Recorded)
        context = open_aws_context({"role": "trainer"})
    large = tmp_path / "large"
    large.mkdir()
    (large / "file").write_bytes(b"0" * (65 * 2**20))
    context.storage.put_channel(large, "data")
    service = SageMakerService(context.clients)
    service.pauses_seconds, service.log_delay_seconds = (0.05, 0.5), 0.0
    request = harness.request(RUNS_UNTIL_STOPPED)
    job = submit(service, request)
    running(job)
    with pytest.raises(JobExists):
        service.create(request)
    service.jobs()
    job.stop()
    ended(job)
    service.fetch_output("job", "events.jsonl")
    assert called == set(actions("launcher")) - set(NOT_RECORDED)


def test_no_policy_has_a_wildcard_action() -> None:
    for name in ("launcher", "job"):
        assert not [action for action in actions(name) if "*" in action]
