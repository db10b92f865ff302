"""The simulated account refuses what SageMaker refuses: limits of botocore's model, and rules beside the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import boto3
import pytest

from tests.support.aws.service_rules import errors_of, refusal
from tests.support.requests.valid import training_job

MODEL = boto3.client("sagemaker", region_name="us-east-1").meta.service_model
Change = Callable[[dict[str, Any]], Any]


def message(change: Change) -> str | None:
    request = training_job()
    change(request)
    shape = MODEL.operation_model("CreateTrainingJob").input_shape
    return errors_of(shape, request) or refusal("CreateTrainingJob", request)


def resources(**fields: object) -> Change:
    return lambda request: request["ResourceConfig"].update(fields)


def tag(key: str, value: str = "") -> Change:
    return lambda request: request["Tags"].append({"Key": key, "Value": value})


def metric(**fields: str) -> Change:
    return lambda request: request["AlgorithmSpecification"]["MetricDefinitions"][0].update(fields)


def channel(mode: str = "File", **source: object) -> Change:
    def change(request: dict[str, Any]) -> None:
        request["InputDataConfig"][0]["InputMode"] = mode
        request["InputDataConfig"][0]["DataSource"]["S3DataSource"].update(source)

    return change


def file_system(mode: str = "File", path: str = "/rows", *, vpc: bool = True) -> Change:
    source = {"FileSystemId": "fs-0123abcd", "FileSystemType": "EFS", "FileSystemAccessMode": "ro"}
    channel = {"ChannelName": "train", "InputMode": mode}
    channel["DataSource"] = {"FileSystemDataSource": {**source, "DirectoryPath": path}}  # type: ignore[assignment]
    network = {"VpcConfig": {"Subnets": ["subnet-1"], "SecurityGroupIds": ["sg-1"]}} if vpc else {}
    return lambda request: request.update(InputDataConfig=[channel], **network)


AUGMENTED = {"S3DataType": "AugmentedManifestFile", "S3Uri": "s3://bucket/lines", "AttributeNames": ["source-ref"]}


def times(run: int, wait: int | None, *, spot: bool) -> Change:
    stop = {"MaxRuntimeInSeconds": run} | ({} if wait is None else {"MaxWaitTimeInSeconds": wait})
    return lambda request: request.update(StoppingCondition=stop, EnableManagedSpotTraining=spot)


@pytest.mark.parametrize(
    "change",
    [
        lambda request: None,
        resources(InstanceType="ml.g5.xlarge", VolumeSizeInGB=250),
        resources(VolumeKmsKeyId="alias/mine"),
        times(3600, 3600, spot=True),
        channel(S3DataType="ManifestFile", S3Uri="s3://bucket/rows.manifest"),
        channel("Pipe", **AUGMENTED),
        file_system(),
        times(28 * 86_400, None, spot=False),
    ],
)
def test_a_request_within_the_limits_is_accepted(change: Change) -> None:
    assert message(change) is None


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda request: request.update(TrainingJobName="x" * 64), "at 'trainingJobName' failed to satisfy constraint"),
        (
            lambda request: request["HyperParameters"].update({f"h{number}": "1" for number in range(100)}),
            "at 'hyperParameters' failed to satisfy constraint: Member must have length less than or equal to 100",
        ),
        (lambda request: request["InputDataConfig"].append(request["InputDataConfig"][0]), "must be unique"),
        (metric(Regex="("), "Invalid metric regex"),
        (tag("AWS:mine"), "reserved tags prefix"),
        (tag("team"), "Duplicate tag keys"),
        (resources(KeepAlivePeriodInSeconds=21_601), "value less than or equal to 21600"),
        (resources(InstancePreferences=[{"InstanceType": "ml.g5.xlarge"}]), "exactly one of InstanceType"),
        (resources(InstanceType="ml.g5.xlarge", VolumeKmsKeyId="alias/mine"), "does not support VolumeKmsKeyId"),
        (resources(InstanceType="ml.g5.xlarge", VolumeSizeInGB=251), "exceeds the local storage"),
        (channel(**AUGMENTED), "AugmentedManifestFile is only supported for Pipe input mode, not File"),
        (channel("Pipe", **{**AUGMENTED, "AttributeNames": []}), "AttributeNames are required"),
        (channel(S3DataType="ManifestFile"), "s3://bucket/data/ is not an object, which ManifestFile needs"),
        (file_system(vpc=False), "VpcConfig is required for FileSystemDataSource"),
        (times(28 * 86_400 + 1, None, spot=False), "is more than"),
        (times(60, 59, spot=True), "Invalid MaxWaitTimeInSeconds"),
        (times(60, 60, spot=False), "only supported for managed spot"),
    ],
)
def test_a_request_beyond_a_limit_is_refused(change: Change, expected: str) -> None:
    assert expected in (message(change) or "accepted")


def test_all_errors_of_a_request_are_counted() -> None:
    """As reported in zenml-io/zenml#1502."""
    text = message(lambda request: request.update(TrainingJobName="-" * 64))
    assert text is not None
    assert text.startswith("2 validation errors detected: Value '---")


def test_hosting_has_the_same_limits() -> None:
    variant = {"VariantName": "all", "ModelName": "m", "InitialInstanceCount": 1, "InstanceType": "ml.g5.xlarge"}
    config = {"EndpointConfigName": "c", "ProductionVariants": [variant]}
    shape = MODEL.operation_model("CreateEndpointConfig").input_shape
    assert errors_of(shape, config) is None
    assert "enum value set" in str(
        errors_of(shape, {**config, "ProductionVariants": [{**variant, "InstanceType": "x"}]})
    )
    assert refusal("CreateEndpointConfig", {**config, "KmsKeyId": "k"}) == (
        "Instance type ml.g5.xlarge does not support KmsKeyId."
    )
    assert refusal("CreateEndpoint", {"Tags": [{"Key": "aws:x", "Value": ""}]}) is not None
    assert refusal("CreateModel", {"Tags": [{"Key": "x", "Value": ""}]}) is None
