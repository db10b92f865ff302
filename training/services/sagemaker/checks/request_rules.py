"""Check a request before anything is uploaded, so that SageMaker does not refuse it afterwards.

The limits are those of the installed botocore's model, and rules that its documentation states beside the model.
State of the account, such as quotas, roles and images, is known only to AWS.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import botocore

from training.contract.errors import InputError, nearest
from training.contract.request import check_tags
from training.services.sagemaker.checks.model_limits import Violation, violations

FIELDS: Mapping[str, str] = {
    "TrainingJobName": "the job's name",
    "EndpointName": "name",
    "RoleArn": "aws.role",
    "ExecutionRoleArn": "aws.role",
    "AlgorithmSpecification.TrainingImage": "machine.image",
    "PrimaryContainer.Image": "image",
    "AlgorithmSpecification.MetricDefinitions": "metrics",
    "HyperParameters": "hyperparameters",
    "InputDataConfig": "channels",
    "Environment": "environment",
    "OutputDataConfig.KmsKeyId": "aws.output_key",
    "OutputDataConfig.S3OutputPath": "aws.bucket",
    "CheckpointConfig.S3Uri": "aws.bucket",
    "KmsKeyId": "aws.volume_key",
    "ResourceConfig.VolumeKmsKeyId": "aws.volume_key",
    "ResourceConfig.InstanceType": "machine.instance_type",
    "ResourceConfig.InstancePreferences": "machine.instance_type or fallback_instance_types",
    "ResourceConfig.InstanceCount": "machine.instance_count",
    "ResourceConfig.KeepAlivePeriodInSeconds": "machine.keep_alive_seconds",
    "ProductionVariants.0.InstanceType": "machine",
    "ProductionVariants.0.InitialInstanceCount": "machines",
    "ProductionVariants.0.InferenceAmiVersion": "ami",
    "VpcConfig.Subnets": "aws.subnets",
    "VpcConfig.SecurityGroupIds": "aws.security_groups",
    "Tags": "aws.tags",
}
"""Member of a request to the field of an experiment, or the option of a command, that sets it."""

_SHOWN_CHARACTERS = 60


def check_request(
    model: Any,
    operation: str,
    request: Mapping[str, Any],
    fields: Mapping[str, str] = FIELDS,
    other: str = "The request",
) -> None:
    """Raise InputError for the first value that SageMaker would refuse in a request of `operation`.

    `model` is the `botocore.model.ServiceModel` of SageMaker. `fields` has the field that sets a member, and `other`
    is named for all other members.

    The message names our field, the value, the rule and the member of the request.
    """
    shape = model.operation_model(operation).input_shape
    for violation in violations(shape, request):
        raise InputError(_message(violation, shape, fields, other))
    check_tags(tag["Key"] for tag in request.get("Tags", ()))


def _message(violation: Violation, shape: Any, fields: Mapping[str, str], other: str) -> str:
    path = violation.path
    known = next((at for at in range(len(path), 0, -1) if ".".join(path[:at]) in fields), 0)
    field = fields.get(".".join(path[:known]), other)
    value = "" if violation.value is None else f" {_short(violation.value)}"
    return f"{field}{value} is not allowed by SageMaker: {violation.rule} ({'.'.join(path)}).{_hint(violation, shape)}"


def _hint(violation: Violation, shape: Any) -> str:
    """Return the nearest choice, and what to do if the choice is newer than botocore."""
    for name in violation.path:
        if shape.type_name == "structure" and name not in shape.members:
            return ""
        shape = shape.members[name] if shape.type_name == "structure" else getattr(shape, "member", None) or shape.value
    if not getattr(shape, "enum", None):
        return ""
    close = nearest(str(violation.value), shape.enum)
    return f"{close} If the value is new, install a newer boto3 than {botocore.__version__}."


def _short(value: object) -> str:
    if isinstance(value, Mapping | list | tuple):
        return f"a collection of {len(value)}"
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}... ({len(str(value)):,} characters)"
