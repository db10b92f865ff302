"""No request reaches AWS after an upload and is refused there."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import boto3
import pytest

from models.endpoints.sagemaker.requests import Deployment
from tests.support.aws.account import ROLE, Account
from tests.support.aws.service_rules import refusal
from tests.support.aws.validation import errors_of
from tests.support.requests.random_experiments import IMAGE, RandomExperiments, mapping, text
from training.contract.errors import InputError
from training.services.sagemaker.checks.local_disks import volume_key_of
from training.services.sagemaker.checks.request_rules import check_request

COUNT, SEED = 100, 20261125


def test_random_experiments_are_refused_before_an_upload_or_accepted_by_aws(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    experiments = RandomExperiments(tmp_path, account, SEED)
    accepted = sum(experiments.is_accepted(number, fresh=number % 10 == 0) for number in range(COUNT))
    assert COUNT / 5 < accepted < 4 * COUNT / 5


def deployment(rng: random.Random) -> Deployment:
    """Return a random deployment, as `deploy` makes it from a user's fields."""
    machine = rng.choice(("ml.g5.xlarge", "ml.m5.xlarge", "ml.inf2.xlarge", "ml.c5d.xlarge", "ml.g5.huge", "g5.xlarge"))
    key = rng.choice((None, "alias/mine", text(rng) or "key"))
    ids = rng.choice(({}, {"Subnets": ("subnet-1",), "SecurityGroupIds": ("sg-1", rng.choice(("sg-2", text(rng))))}))
    return Deployment(
        name=rng.choice(("answers", text(rng))),
        image=rng.choice((IMAGE, f"{IMAGE}{text(rng)}")),
        model_data=f"s3://bucket/models/{rng.choice(('a', text(rng)))}/model.tar.gz",
        environment={"HF_TASK": rng.choice(("text-classification", text(rng)))},
        machine=machine,
        machines=rng.choice((1, 2)),
        role_arn=rng.choice((ROLE, f"{ROLE}{text(rng)}")),
        identity="run-1",
        extra_tags=rng.choice(({}, mapping(rng, text, 45), {"aws:mine": "1"})),
        network=ids,
        volume_key=volume_key_of([machine], key),
    )


def test_random_deployments_are_refused_here_if_aws_refuses_them() -> None:
    model = boto3.client("sagemaker", region_name="us-east-1").meta.service_model
    rng, counts = random.Random(SEED), {True: 0, False: 0}
    for _ in range(2 * COUNT):
        for operation, request in deployment(rng).requests():
            theirs = errors_of(model.operation_model(operation).input_shape, request) or refusal(operation, request)
            ours = refused_here(model, operation, request)
            assert (ours is None) == (theirs is None), (ours, theirs)
            assert "\n" not in (ours or "")
            counts[ours is None] += 1
    assert min(counts.values()) > COUNT / 5


def refused_here(model: Any, operation: str, request: dict[str, Any]) -> str | None:
    """Return the message with which we refuse a request, or None."""
    try:
        check_request(model, operation, request)
    except InputError as error:
        return str(error)
    return None
