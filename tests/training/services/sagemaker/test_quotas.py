"""Quotas are asked before an upload. A plan says what was not checked, and no job is blocked for that reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.aws.account import Account
from tests.training.services.sagemaker.conftest import Terminal
from training.contract.errors import QuotaError
from training.contract.job_spec import JobSpec
from training.services.sagemaker.clients import Clients
from training.services.sagemaker.quotas import quota_check


def spec(**fields: Any) -> JobSpec:
    fields = {"instance_type": "ml.g5.xlarge", **fields}
    return JobSpec(name="job", hyperparameters={}, channels={}, source_uri="s3://b/s", output_uri="s3://b/o", **fields)


def refusal(account: Account, job: JobSpec, **values: float) -> str:
    """Return the error for a job in an account with these quotas, by usage; an empty text if it may start."""
    account.quotas.is_allowed = True
    account.quotas.values = {f"ml.g5.xlarge for {usage.replace('_', ' ')}": n for usage, n in values.items()}
    try:
        quota_check(Clients(), print)(job)
    except QuotaError as error:
        return str(error)
    return ""


def test_each_use_of_instances_has_its_quota(account: Account) -> None:
    training = {"training_job_usage": 2.0}
    assert refusal(account, spec(instance_count=2), **training) == ""
    assert refusal(account, spec(instance_count=3), **training) == (
        "the account's quota 'ml.g5.xlarge for training job usage' is 2, and a job needs 3: request an increase under "
        "Service Quotas, SageMaker, or choose another instance type."
    )
    assert "'ml.g5.xlarge for spot training job usage' is 0" in refusal(account, spec(spot=True), **training)
    warm = spec(keep_alive_seconds=60)
    assert "'ml.g5.xlarge for training warm pool usage' is 0" in refusal(account, warm, **training)
    assert refusal(account, warm, **training, training_warm_pool_usage=1) == ""
    fallback = {"fallback_instance_types": ("ml.g5.xlarge",)}
    assert refusal(account, spec(instance_type="ml.g6.xlarge", **fallback), **training) == ""  # one type suffices
    assert "'ml.g6.xlarge for training job usage' is 0" in refusal(account, spec(instance_type="ml.g6.xlarge"))
    groups = [{"InstanceGroupName": "a", "InstanceType": "ml.g5.xlarge", "InstanceCount": n} for n in (1, 2)]
    several = spec(request={"ResourceConfig": {"InstanceGroups": groups}})
    assert "is 2, and a job needs 3" in refusal(account, several, **training)
    assert refusal(account, spec(request={"ResourceConfig": {"TrainingPlanArn": "arn"}})) == ""


def test_a_job_above_its_quota_is_refused_before_an_upload(terminal: Terminal, account: Account) -> None:
    account.quotas.is_allowed = True
    message = "the account's quota 'ml.g5.xlarge for training job usage' is 0, and a job needs 1"
    output = terminal("train")
    assert output.code != 0
    assert message in output.error
    assert account.jobs.names() == []
    bucket = account.clients["s3"].list_buckets()["Buckets"][0]["Name"]
    assert "Contents" not in account.clients["s3"].list_objects_v2(Bucket=bucket)
    assert len(account.quotas_api.calls) > 2  # it reads all pages


@pytest.mark.parametrize(
    ("is_allowed", "note"),
    [
        (False, "quotas of instances were not checked: Service Quotas: access is denied: User is not authorized"),
        (True, "the quota 'ml.g5.xlarge for training job usage' was not checked: Service Quotas does not list it"),
    ],
)
def test_a_plan_says_what_it_could_not_check(terminal: Terminal, account: Account, is_allowed: bool, note: str) -> None:
    account.quotas.is_allowed = is_allowed
    account.quotas.unlisted.add("ml.g5.xlarge for training job usage")
    options = [word for name, value in terminal.fields.items() for word in (f"--{name}", str(value))]
    plan = json.loads(terminal.run("plan", "train", *options, "--format", "json").out)
    assert plan["refusals"] == []
    assert any(note in each for each in plan["notes"])
