"""Check a request before anything is uploaded, so that SageMaker does not refuse it afterwards.

The limits come from the installed botocore's model, and from rules in its documentation.
State of the account, such as quotas, roles and images, is known only to AWS.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import botocore
import regex

from training.contract.errors import InputError, nearest
from training.contract.request import check_tags

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


@dataclass(frozen=True)
class Violation:
    """A value of a request that its model does not allow."""

    path: tuple[str, ...]
    """Members from the request to the value, such as `("Tags", "0", "Key")`."""
    value: object
    rule: str
    """Rule that the value breaks, as the end of a sentence: `at most 63 characters are allowed`."""


def violations(shape: Any, value: Any, path: tuple[str, ...] = ()) -> Iterator[Violation]:
    """Yield what a value, such as a whole request, contains that its `botocore.model.Shape` does not allow."""
    kind = shape.type_name
    if kind == "structure":
        yield from _structure(shape, value, path)
    elif kind == "list":
        yield from _size(shape, len(value), value, path, "entries")
        for at, each in enumerate(value):
            yield from violations(shape.member, each, (*path, str(at)))
    elif kind == "map":
        yield from _size(shape, len(value), value, path, "entries")
        for name, each in value.items():
            yield from violations(shape.key, name, (*path, name))
            yield from violations(shape.value, each, (*path, name))
    elif kind == "string":
        yield from _text(shape, value, path)
    elif kind in {"integer", "long", "float", "double"}:
        yield from _size(shape, value, value, path, "")


def characters(text: str) -> int:
    """Return the length of a text in UTF-16 code units, which is how Java and so the service counts."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _structure(shape: Any, value: Any, path: tuple[str, ...]) -> Iterator[Violation]:
    for name in shape.required_members:
        if name not in value:
            yield Violation((*path, name), None, "a value is required")
    for name, each in value.items():
        if name not in shape.members:
            yield Violation((*path, name), each, "SageMaker does not know this member")
        else:
            yield from violations(shape.members[name], each, (*path, name))


def _text(shape: Any, value: str, path: tuple[str, ...]) -> Iterator[Violation]:
    yield from _size(shape, characters(value), value, path, "characters")
    pattern = shape.metadata.get("pattern")
    if shape.enum and value not in shape.enum:
        yield Violation(path, value, "the installed botocore does not list this value")
    elif pattern and not regex.fullmatch(pattern, value):
        yield Violation(path, value, f"it must match {pattern}")


def _size(shape: Any, size: float, value: object, path: tuple[str, ...], unit: str) -> Iterator[Violation]:
    lowest, highest = shape.metadata.get("min"), shape.metadata.get("max")
    amount = f"{unit} are" if unit else "is"
    if lowest is not None and size < lowest:
        yield Violation(path, value, f"at least {lowest:,} {amount} required")
    if highest is not None and size > highest:
        yield Violation(path, value, f"at most {highest:,} {amount} allowed")
