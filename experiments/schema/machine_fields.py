"""Fields of an experiment that select where a job runs: its instances and their resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from judging.spot.rates import DEFAULT_PER_HOUR
from training.contract.frozen import Frozen, Name
from training.contract.job_spec import Instances, Names
from training.contract.request import has_instance_groups


def _version(value: object, info: ValidationInfo) -> object:
    """Return a version as text. YAML reads 2.10 as the number 2.1, so a number that ends in .1 is ambiguous."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if str(value).endswith(".1"):
        raise ValueError(
            f"machine.image.{info.field_name} is {value}, which may be version {value} or {value}0: write the version "
            "in quotes"
        )
    return str(value)


Version = Annotated[str, BeforeValidator(_version), Field(pattern=r"^[0-9]{1,3}(\.[0-9]{1,3}){0,2}$")]


class Image(Frozen):
    """Container image: its URI, or versions of AWS's image."""

    uri: Name | None = None
    """URI of the image. It excludes the versions."""
    transformers: Version | None = None
    """Version of Transformers, in full or its beginning: `4.49` or `4.49.0`."""
    pytorch: Version | None = None
    """Version of PyTorch, in full or its beginning: `2.5` or `2.5.1`. Write `"2.10"` in quotes."""

    @model_validator(mode="before")
    @classmethod
    def _from_uri(cls, value: Any) -> Any:
        return {"uri": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _check(self) -> Image:
        if self.uri and self.versions():
            raise ValueError("machine.image has a URI and versions; the URI states the versions, so leave them out")
        return self

    def versions(self) -> dict[str, str]:
        """Return the versions that are set."""
        values = {"transformers": self.transformers, "pytorch": self.pytorch}
        return {name: value for name, value in values.items() if value is not None}


class Machine(Frozen, Instances):
    """Instances and resources of a job."""

    cores: Annotated[int, Field(ge=1, le=4_096)] | None = None
    """Local: CPU cores of the job. None means all cores of this machine."""
    memory_gib: Annotated[float, Field(gt=0.0, le=1e6)] | None = None
    """Local: memory limit of the job, in GiB. None sets no limit."""
    interruptions_per_hour: Annotated[float, Field(ge=0.0, le=3_600.0)] = DEFAULT_PER_HOUR
    """SageMaker: interruptions of an instance on spot capacity, for the expected cost. The default is 20 % per month;
    5 % is 0.00007. AWS's Spot Instance Advisor states the rates."""
    spot_discount_percent: Annotated[float, Field(ge=0.0, lt=100.0)] | None = None
    """SageMaker: discount of spot capacity, for the expected cost. None takes the median of earlier spot jobs of the
    experiment."""
    image: Image | None = None
    """SageMaker: container image. None takes AWS's newest one that can run the job on the instance type."""


S3Prefix = Annotated[str, Field(pattern=r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9!_.*'()-]+)*/?$")]
"""Bucket, or a prefix in a bucket, with the characters that AWS calls safe in keys."""

SET_BY_FIELDS = {
    "TrainingJobName": "aws.job_prefix",
    "RoleArn": "aws.role",
    "HyperParameters": "the fields of the experiment",
    "InputDataConfig": "data or script.channels",
    "Environment": "script.environment",
    "Tags": "aws.tags",
    "VpcConfig": "aws.subnets and aws.security_groups",
    "EnableNetworkIsolation": "aws.isolate_network",
    "EnableInterContainerTrafficEncryption": "aws.encrypt_traffic",
    "EnableManagedSpotTraining": "machine.spot",
    "AlgorithmSpecification.TrainingImage": "machine.image",
    "AlgorithmSpecification.MetricDefinitions": "script.metrics",
    "OutputDataConfig.S3OutputPath": "aws.output_uri",
    "OutputDataConfig.KmsKeyId": "aws.output_key",
    "CheckpointConfig.S3Uri": "aws.checkpoint_uri",
    "StoppingCondition.MaxRuntimeInSeconds": "machine.max_run_seconds",
    "StoppingCondition.MaxWaitTimeInSeconds": "machine.max_wait_seconds",
    "ResourceConfig.InstanceType": "machine.instance_type",
    "ResourceConfig.InstanceCount": "machine.instance_count",
    "ResourceConfig.InstancePreferences": "machine.fallback_instance_types",
    "ResourceConfig.VolumeSizeInGB": "machine.volume_gib",
    "ResourceConfig.VolumeKmsKeyId": "aws.volume_key",
    "ResourceConfig.KeepAlivePeriodInSeconds": "machine.keep_alive_seconds",
}
"""Members of a request and the fields that set them. Costs, names and limits follow from these fields, so the members
cannot be changed behind their backs."""


def check_group_budget(changes: Mapping[str, Any], max_usd: float | None, max_billable_seconds: float | None) -> None:
    """Raise ValueError for a budget of a heterogeneous cluster, whose groups have types that no field knows."""
    if not has_instance_groups(changes) or (max_usd is None and max_billable_seconds is None):
        return
    name = "max_usd" if max_usd is not None else "max_billable_seconds"
    raise ValueError(
        f"{name} cannot be combined with aws.request.ResourceConfig.InstanceGroups: the cost of the groups is not "
        "known before the jobs end"
    )


def check_overlay(changes: Mapping[str, Any]) -> None:
    """Raise ValueError for a member that a field of the experiment sets."""
    for name, value in changes.items():
        if name in SET_BY_FIELDS:
            raise ValueError(f"aws.request.{name} is set by {SET_BY_FIELDS[name]}: use that instead")
        for member in value if isinstance(value, Mapping) else ():
            if field := SET_BY_FIELDS.get(f"{name}.{member}"):
                raise ValueError(f"aws.request.{name}.{member} is set by {field}: use that instead")
        if value is None and any(each.startswith(f"{name}.") for each in SET_BY_FIELDS):
            raise ValueError(f"aws.request.{name} cannot be removed: fields of the experiment set parts of it")


class Aws(Frozen):
    """AWS account, network and keys. The configuration file of SageMaker's SDK supplies what is not set."""

    region: Name | None = None
    """Region. None means the region of the environment."""
    profile: Name | None = None
    """Profile with the credentials. None means AWS_PROFILE or the default profile."""
    job_prefix: Annotated[str, Field(pattern=r"^[a-z0-9](-?[a-z0-9]){0,15}$")] | None = None
    """Beginning of the names of all jobs: at most 16 lower-case letters, digits and hyphens."""
    role: Name | None = None
    """Role that the jobs assume, by name or ARN. None means the role of this process, inside SageMaker."""
    bucket: Name | None = None
    """Bucket for data, sources and artifacts. None means the bucket of the SDK, `sagemaker-<region>-<account>`."""
    output_uri: S3Prefix | None = None
    """S3 prefix for the artifacts of jobs. None means `trainfare/output` in the bucket."""
    checkpoint_uri: S3Prefix | None = None
    """S3 prefix for checkpoints, in a folder for each job. None means `trainfare/checkpoints` in the bucket."""
    source_uri: S3Prefix | None = None
    """S3 prefix for the sources of jobs. None means `trainfare/source` in the bucket."""
    subnets: Names = ()
    """Subnets of your VPC for the jobs. Requires `security_groups`."""
    security_groups: Names = ()
    """Security groups of the jobs. Requires `subnets`."""
    isolate_network: bool = False
    """Block outbound network calls of the container, and refuse what needs a network."""
    encrypt_traffic: bool = False
    """Encrypt the traffic between the instances of a job."""
    volume_key: Name | None = None
    """KMS key that encrypts the disks of the instances, except built-in disks."""
    output_key: Name | None = None
    """KMS key that encrypts what is written to S3."""
    tags: Annotated[Mapping[str, str], Field(strict=False)] = {}
    """AWS tags of the jobs."""
    request: Annotated[Mapping[str, Any], Field(strict=False)] = {}
    """Fields of CreateTrainingJob that no other field sets, such as `{RetryStrategy: {MaximumRetryAttempts: 2}}`. null
    removes a key."""
    prices: Name | None = None
    """JSON file with prices. None reads the AWS price list."""

    @field_validator("request")
    @classmethod
    def _check_request(cls, value: Mapping[str, Any]) -> Mapping[str, Any]:
        check_overlay(value)
        return value

    def given(self) -> dict[str, Any]:
        """Return the fields that were set explicitly."""
        return {name: getattr(self, name) for name in self.model_fields_set}
