"""Rules of SageMaker that botocore's model describes only in its documentation, for each operation that creates.

Each rule cites the documentation of the member in botocore 1.44.5, sagemaker/2017-07-24, or what users report."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import moto
import regex
from botocore.validate import ParamValidator

Request = Mapping[str, Any]

LONGEST_RUN_SECONDS = 28 * 86_400
"""`StoppingCondition.MaxRuntimeInSeconds`: "The maximum value is 28 days"."""


def refusal(operation: str, request: Request) -> str | None:
    """Return the message with which SageMaker refuses a request that its model allows, or None."""
    rules = RULES.get(operation, ())
    return next((message for rule in rules for message in rule(request)), None)


def machine_types(request: Request) -> list[str]:
    """Return the instance types of a training job, in order of preference."""
    resources = request["ResourceConfig"]
    several = [*resources.get("InstancePreferences", []), *resources.get("InstanceGroups", [])]
    return [each["InstanceType"] for each in several] or [resources["InstanceType"]]


@cache
def ec2_instance_types() -> dict[str, Any]:
    """Return EC2's DescribeInstanceTypes by type, as moto records it."""
    path = Path(moto.__file__).parent / "ec2" / "resources" / "instance_types.json.gz"
    return dict(json.loads(gzip.decompress(path.read_bytes())))


def local_disk_gb(instance_type: str) -> int | None:
    """Return the size of the disks that are built into an instance type, or None without any."""
    storage = ec2_instance_types().get(instance_type.removeprefix("ml."), {}).get("InstanceStorageInfo")
    return int(storage["TotalSizeInGB"]) if storage else None


def _tags(request: Request) -> Iterator[str]:
    """`Tag.Key` of the API reference, and "Tagging AWS resources": the prefix is reserved in any case of letters."""
    keys = [tag["Key"] for tag in request.get("Tags", [])]
    for key in keys:
        if key.lower().startswith("aws:"):
            yield f"Aws reserved tags prefix 'aws:' is not allowed: {key}"
    if len(set(keys)) < len(keys):
        yield f"Duplicate tag keys found: {keys}"


def _types(request: Request) -> Iterator[str]:
    """`ResourceConfig.InstancePreferences`: not together with InstanceType or InstanceGroups."""
    resources = request["ResourceConfig"]
    chosen = [name for name in ("InstanceType", "InstancePreferences", "InstanceGroups") if resources.get(name)]
    if len(chosen) != 1:
        yield f"Specify exactly one of InstanceType, InstancePreferences and InstanceGroups, not {chosen}"
    types = machine_types(request)
    if len(set(types)) < len(types):
        yield f"InstancePreferences repeat an instance type: {types}"
    if resources.get("InstanceGroups") and "InstanceCount" in resources:
        yield "InstanceCount is not supported with InstanceGroups, each of which has its own"
    if resources.get("InstancePreferences") and request.get("EnableManagedSpotTraining"):
        yield "InstancePreferences are not supported for managed spot training"


def _volume(request: Request) -> Iterator[str]:
    """`ResourceConfig.VolumeKmsKeyId` and `VolumeSizeInGB`: not with, or not larger than, local storage.

    SDK v2 leaves the key out for this reason (aws/sagemaker-python-sdk#3677 and pull request #3870).
    """
    resources = request["ResourceConfig"]
    for each in machine_types(request):
        size = local_disk_gb(each)
        if size is None:
            continue
        if "VolumeKmsKeyId" in resources:
            yield f"The instance type {each} does not support VolumeKmsKeyId."
        if resources["VolumeSizeInGB"] > size:
            yield f"VolumeSizeInGB {resources['VolumeSizeInGB']} exceeds the local storage of {each}, {size} GB"


def _times(request: Request) -> Iterator[str]:
    """`StoppingCondition`: the longest run, and a wait of spot training alone that includes the run."""
    stop = request["StoppingCondition"]
    run, wait = stop["MaxRuntimeInSeconds"], stop.get("MaxWaitTimeInSeconds")
    if run > LONGEST_RUN_SECONDS:
        yield f"MaxRuntimeInSeconds {run} is more than {LONGEST_RUN_SECONDS}"
    if request.get("EnableManagedSpotTraining"):
        if wait is None:
            yield "MaxWaitTimeInSeconds is required if EnableManagedSpotTraining is true"
        elif wait < run:
            yield f"Invalid MaxWaitTimeInSeconds. It must be present and be greater than or equal to {run}"
        if request["ResourceConfig"].get("KeepAlivePeriodInSeconds"):
            yield "KeepAlivePeriodInSeconds is not supported for managed spot training"
    elif wait is not None:
        yield "MaxWaitTimeInSeconds is only supported for managed spot training"


def _channels(request: Request) -> Iterator[str]:
    """`Channel.ChannelName`: unique. `S3DataSource.InstanceGroupNames`: groups of the job. Pipe mode alone unpacks."""
    channels = request.get("InputDataConfig", [])
    names = [each["ChannelName"] for each in channels]
    if len(set(names)) < len(names):
        yield f"Channel names must be unique: {names}"
    groups = {each["InstanceGroupName"] for each in request["ResourceConfig"].get("InstanceGroups", [])}
    for each in channels:
        if unknown := {*each["DataSource"].get("S3DataSource", {}).get("InstanceGroupNames", [])} - groups:
            yield f"Channel {each['ChannelName']} names instance groups that do not exist: {unknown}"
        if each.get("InputMode") != "Pipe" and {"CompressionType", "RecordWrapperType"} & each.keys():
            yield f"CompressionType and RecordWrapperType of channel {each['ChannelName']} need input mode Pipe"


def _metrics(request: Request) -> Iterator[str]:
    """`MetricDefinition.Regex`: an expression that CloudWatch can compile."""
    for each in request["AlgorithmSpecification"].get("MetricDefinitions", []):
        try:
            re.compile(each["Regex"])
        except re.error as error:
            yield f"Invalid metric regex {each['Regex']}: {error}"


def _variants(request: Request) -> Iterator[str]:
    """`CreateEndpointConfig.KmsKeyId`: not with local storage. `ProductionVariant.VariantName`: unique."""
    variants = request["ProductionVariants"]
    names = [each["VariantName"] for each in variants]
    if len(set(names)) < len(names):
        yield f"Variant names must be unique: {names}"
    for each in variants:
        if "KmsKeyId" in request and local_disk_gb(each["InstanceType"]):
            yield f"Instance type {each['InstanceType']} does not support KmsKeyId."


Rule = Callable[[Request], Iterator[str]]
RULES: Mapping[str, Sequence[Rule]] = {
    "CreateTrainingJob": (_tags, _types, _volume, _times, _channels, _metrics),
    "CreateModel": (_tags,),
    "CreateEndpointConfig": (_tags, _variants),
    "CreateEndpoint": (_tags,),
    "AddTags": (_tags,),
}


MEMBER = "failed to satisfy constraint: Member must"


def errors_of(shape: Any, parameters: Mapping[str, Any]) -> str | None:
    """Return the message of a ValidationException for the parameters of a call, or None if they are valid."""
    report = ParamValidator().validate(dict(parameters), shape)
    if report.has_errors():
        return str(report.generate_report())
    found = list(_errors(shape, parameters, ""))
    if not found:
        return None
    return f"{len(found)} validation error{'s' * (len(found) > 1)} detected: {'; '.join(found)}"


def _errors(shape: Any, value: Any, place: str) -> Iterator[str]:
    limits = shape.metadata
    if shape.type_name == "structure":
        if getattr(shape, "is_tagged_union", False) and len(value) != 1:
            yield f"Value at '{place}' {MEMBER} have exactly one member set"
        for name, member in shape.members.items():
            if name in value:
                yield from _errors(member, value[name], f"{place}.{name[0].lower()}{name[1:]}".lstrip("."))
    if shape.type_name == "list":
        for number, each in enumerate(value, 1):
            yield from _errors(shape.member, each, f"{place}.{number}.member")
    if shape.type_name == "map":
        for name, each in value.items():
            yield from _errors(shape.key, name, f"{place}.key")
            yield from _errors(shape.value, each, f"{place}.{name}.value")
    if shape.type_name in {"list", "map", "string"}:
        # Java counts UTF-16 code units.
        length = len(value.encode("utf-16-le", "surrogatepass")) // 2 if shape.type_name == "string" else len(value)
        if length < limits.get("min", 0):
            yield f"Value '{value}' at '{place}' {MEMBER} have length greater than or equal to {limits['min']}"
        if length > limits.get("max", length):
            yield f"Value '{value}' at '{place}' {MEMBER} have length less than or equal to {limits['max']}"
    if shape.type_name in {"integer", "long", "float", "double"}:
        if value < limits.get("min", value):
            yield f"Value '{value}' at '{place}' {MEMBER} have value greater than or equal to {limits['min']}"
        if value > limits.get("max", value):
            yield f"Value '{value}' at '{place}' {MEMBER} have value less than or equal to {limits['max']}"
    if shape.type_name == "string":
        yield from _text_errors(shape, value, place)


def _text_errors(shape: Any, value: str, place: str) -> Iterator[str]:
    if shape.enum and value not in shape.enum:
        yield f"Value '{value}' at '{place}' {MEMBER} satisfy enum value set: [{', '.join(shape.enum)}]"
    pattern = shape.metadata.get("pattern")
    # `$` of Java's default mode and of `regex.fullmatch` agree; `\p{Alnum}` is Java's name of a POSIX class.
    if pattern and not regex.fullmatch(re.sub(r"\\p\{Alnum\}", "A-Za-z0-9", pattern), value):
        yield f"Value '{value}' at '{place}' {MEMBER} satisfy regular expression pattern: {pattern}"
