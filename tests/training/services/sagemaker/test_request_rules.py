"""A request beyond a limit of SageMaker's model gives one sentence that names our field, the value and the rule."""

from __future__ import annotations

from typing import Any

import boto3
import pytest

from tests.support.aws.account import ROLE
from training.contract.errors import InputError
from training.services.sagemaker.job_rules import check_request

MODEL = boto3.client("sagemaker", region_name="us-east-1").meta.service_model


def training_job() -> dict[str, Any]:
    """Return a request for CreateTrainingJob, to change."""
    source = {"S3DataType": "S3Prefix", "S3Uri": "s3://bucket/data/"}
    return {
        "TrainingJobName": "job",
        "AlgorithmSpecification": {
            "TrainingImage": "image",
            "TrainingInputMode": "File",
            "MetricDefinitions": [{"Name": "loss", "Regex": "loss ([0-9.]+)"}],
        },
        "RoleArn": ROLE,
        "HyperParameters": {"epochs": "3"},
        "InputDataConfig": [{"ChannelName": "train", "DataSource": {"S3DataSource": source}}],
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/output"},
        "ResourceConfig": {"InstanceType": "ml.p3.2xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30},
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
        "Environment": {"A": "1"},
        "Tags": [{"Key": "team", "Value": "nlp"}],
    }


def changed(path: str, value: object) -> dict[str, Any]:
    """Return a valid request with another value at a path such as `ResourceConfig.InstanceType`."""
    request = training_job()
    *parents, last = path.split(".")
    target: Any = request
    for name in parents:
        target = target[int(name)] if name.isdigit() else target[name]
    target[last] = value
    return request


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            "ResourceConfig.InstanceType",
            "ml.g5.huge",
            r"machine.instance_type 'ml.g5.huge' is not allowed by SageMaker \(ResourceConfig.InstanceType\): boto3 "
            r"\S+ does not list it. Did you mean 'ml.g5.*'\? If it is new, install a newer boto3.",
        ),
        (
            "OutputDataConfig.KmsKeyId",
            "my key",
            r"aws.output_key 'my key' is not allowed by SageMaker \(OutputDataConfig.KmsKeyId\): it must match "
            r"\[a-zA-Z0-9:/_-\]\*.",
        ),
        ("RoleArn", f"{ROLE}/" + "x" * 2048, r"aws.role 'arn:.*\.\.\. .* at most 2,048 characters are allowed."),
        ("Tags.0.Value", "a#b", r"aws.tags 'a#b' is not allowed by SageMaker \(Tags.0.Value\): it must match .*."),
        ("InputDataConfig", [], "data or script.channels a list .* at least 1 entries are required."),
        ("RetryStrategy", {}, r"The request .* \(RetryStrategy.MaximumRetryAttempts\): a value is required."),
        ("Nonsense", "1", r"The request '1' is not allowed by SageMaker .*: SageMaker does not know this member."),
    ],
)
def test_the_message_names_field_value_and_rule(path: str, value: object, message: str) -> None:
    with pytest.raises(InputError, match=f"^{message}$"):
        check_request(MODEL, "CreateTrainingJob", changed(path, value))


def test_reserved_tags_are_refused_for_endpoints_too() -> None:
    request = {"EndpointName": "e", "EndpointConfigName": "c", "Tags": [{"Key": "AWS:x", "Value": ""}]}
    with pytest.raises(InputError, match="'AWS:x' in tags is not allowed: AWS reserves names that start with 'aws:'"):
        check_request(MODEL, "CreateEndpoint", request)
