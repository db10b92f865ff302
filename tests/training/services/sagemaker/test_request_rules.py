"""A request beyond a limit of SageMaker's model gives one sentence that names our field, the value and the rule."""

from __future__ import annotations

from typing import Any

import boto3
import pytest

from tests.support.aws.account import ROLE
from training.contract.errors import InputError
from training.services.sagemaker.job_rules import characters, check_request, violations

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
            "machine.instance_type 'ml.g5.huge' is not allowed by SageMaker: the installed botocore does not list this "
            r"value \(ResourceConfig.InstanceType\). Did you mean 'ml.g5.*'\? If the value is new, install a newer "
            "boto3 than .*",
        ),
        (
            "OutputDataConfig.KmsKeyId",
            "my key",
            r"aws.output_key 'my key' is not allowed by SageMaker: it must match \[a-zA-Z0-9:/_-\]\* "
            r"\(OutputDataConfig.KmsKeyId\).",
        ),
        (
            "RoleArn",
            f"{ROLE}/" + "x" * 2048,
            r"aws.role 'arn:.*\.\.\. \(2,087 characters\) .* at most 2,048 characters .*",
        ),
        ("Tags.0.Value", "a#b", r"aws.tags 'a#b' is not allowed by SageMaker: it must match .* \(Tags.0.Value\)."),
        ("InputDataConfig", [], "channels a collection of 0 .* at least 1 entries are required .*"),
        ("RetryStrategy", {}, r"The request .* a value is required \(RetryStrategy.MaximumRetryAttempts\)."),
        ("Nonsense", "1", r"The request '1' is not allowed by SageMaker: SageMaker does not know this member .*"),
    ],
)
def test_the_message_names_field_value_and_rule(path: str, value: object, message: str) -> None:
    with pytest.raises(InputError, match=f"^{message}$"):
        check_request(MODEL, "CreateTrainingJob", changed(path, value))


def test_reserved_tags_are_refused_for_endpoints_too() -> None:
    request = {"EndpointName": "e", "EndpointConfigName": "c", "Tags": [{"Key": "AWS:x", "Value": ""}]}
    with pytest.raises(InputError, match="'AWS:x' in tags is not allowed: AWS reserves names that start with 'aws:'"):
        check_request(MODEL, "CreateEndpoint", request)


def test_characters_are_counted_as_java_counts_them() -> None:
    assert (characters("aé漢"), characters("\N{GRINNING FACE}"), characters("\ud800")) == (3, 2, 1)
    environment = MODEL.shape_for("TrainingEnvironmentValue")
    assert list(violations(environment, "\N{GRINNING FACE}" * 256)) == []
    assert [each.rule for each in violations(environment, "\N{GRINNING FACE}" * 257)] == [
        "at most 512 characters are allowed"
    ]
