"""Fields of an experiment for the AWS account of its jobs: credentials, names, places, network and keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, field_validator

from experiments.schema.machine_fields import Names
from training.staging.sources.request import Frozen, Name

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


def has_instance_groups(changes: Mapping[str, Any]) -> bool:
    """Return whether the members of a request describe a heterogeneous cluster."""
    resources = changes.get("ResourceConfig")
    return isinstance(resources, Mapping) and "InstanceGroups" in resources


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
