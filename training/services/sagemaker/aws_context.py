"""AWS account, role, bucket and network of jobs, and the upload of a job's source and data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from state.digests import digest
from training.contract.errors import InputError, first_line
from training.contract.job_spec import NOT_CHOSEN, JobSpec
from training.contract.price import instances_of
from training.contract.request import build
from training.contract.retry import CREDENTIALS_WAIT_MINUTES
from training.contract.s3_location import is_s3
from training.job.processes.ranks import CACHE_VARIABLE
from training.services.sagemaker.clients import Clients, account_of, role_of
from training.services.sagemaker.job_rules import (
    check_devices,
    check_instance_types,
    check_isolation,
    check_request,
    check_sdk_rules,
    check_settings,
    device_notes,
    shell_safe_hyperparameters,
)
from training.services.sagemaker.machines import all_types, check_image, default_image, entry_point, volume_key_of
from training.services.sagemaker.storage import Storage, check_channels, create_bucket, find_bucket, local_folder

SPEC_FIELDS = (
    *("subnets", "security_groups", "isolate_network", "encrypt_traffic"),
    *("volume_key", "output_key", "tags"),
)
"""Fields of an experiment's `aws` that are copied to each job."""

Log = Callable[[str], None]
CONFIG_PATHS = {
    "role": ("TrainingJob", "RoleArn"),
    "subnets": ("TrainingJob", "VpcConfig", "Subnets"),
    "security_groups": ("TrainingJob", "VpcConfig", "SecurityGroupIds"),
    "volume_key": ("TrainingJob", "ResourceConfig", "VolumeKmsKeyId"),
    "output_key": ("TrainingJob", "OutputDataConfig", "KmsKeyId"),
    "isolate_network": ("TrainingJob", "EnableNetworkIsolation"),
    "encrypt_traffic": ("TrainingJob", "EnableInterContainerTrafficEncryption"),
    "bucket": ("PythonSDK", "Modules", "Session", "DefaultS3Bucket"),
    "bucket_prefix": ("PythonSDK", "Modules", "Session", "DefaultS3ObjectKeyPrefix"),
}


@dataclass(frozen=True, kw_only=True)
class AwsContext:
    """Settings that all jobs of one account and region share."""

    clients: Clients
    role_arn: str
    storage: Storage
    sources: Storage
    """Storage of the jobs' sources."""
    output_uri: str
    """S3 prefix of the artifacts, without a slash at the end."""
    checkpoint_uri: str
    """S3 prefix of the checkpoints, in the same form."""
    fields: Mapping[str, Any]
    """Values of those `SPEC_FIELDS` that are set."""
    _uris: dict[str, str] = field(default_factory=dict)
    """Uploads so far: local URI to S3 URI."""

    def resolve(self, spec: JobSpec) -> JobSpec:
        """Return the job as it will run on AWS, before its upload. Raises InputError if it cannot run."""
        region, volume_key = self.clients.region, self.fields.get("volume_key")
        check_instance_types(spec)
        image = default_image(spec, region) if spec.image == NOT_CHOSEN else spec.image
        entry, arguments = entry_point(image)
        is_exact = spec.checkpoint_uri is None or is_s3(spec.checkpoint_uri)
        resolved = spec.model_copy(
            update={
                "hyperparameters": shell_safe_hyperparameters(spec),
                "region": region,
                "role_arn": self.role_arn,
                "image": image,
                "entry_point": entry,
                "entry_arguments": arguments,
                "output_uri": self.output_uri,
                "checkpoint_uri": spec.checkpoint_uri if is_exact else f"{self.checkpoint_uri}/{spec.name}",
                "environment": self._environment(spec, image),
                **self.fields,
                "tags": {**spec.tags, **self.fields.get("tags", {})},
                "volume_key": volume_key_of((*all_types(spec), *instances_of(spec.resources)), volume_key),
            }
        )
        check_sdk_rules(resolved)
        check_image(resolved)
        check_isolation(resolved)
        check_channels(spec.channels)
        check_devices(resolved)
        check_settings(resolved)
        self._check_request(resolved)
        return resolved

    def _check_request(self, spec: JobSpec) -> None:
        """Raise InputError for a value that SageMaker would refuse.

        The uploads have not been made, so their URIs are placeholders of the same length.
        """
        key = "0" * 32
        channel = f"{self.storage.uri('data', key)}/"
        uploads = {
            "source_uri": self.sources.uri("source", key, "sourcedir.tar.gz"),
            "channels": {name: channel if local_folder(uri) else uri for name, uri in spec.channels.items()},
        }
        model = self.clients.get("sagemaker").meta.service_model
        check_request(model, "CreateTrainingJob", build(spec.model_copy(update=uploads)))

    def upload(self, spec: JobSpec, log: Log) -> JobSpec:
        """Upload the job's source and channels, each once, and return the job with their S3 URIs."""
        resolved = self.resolve(spec)
        for note in device_notes(resolved):
            log(f"Note: {note}")
        if self.fields.get("volume_key") and not resolved.volume_key:
            log(f"Note: aws.volume_key does not apply to {spec.instance_type}: its disks have a key of their own.")
        return resolved.model_copy(
            update={
                "source_uri": self._put(spec.source_uri, lambda path: self.sources.put_source(path, spec.requirements)),
                "channels": {
                    name: self._put(uri, lambda path: self.storage.put_channel(path, "data", log))
                    for name, uri in spec.channels.items()
                },
            }
        )

    def _environment(self, spec: JobSpec, image: str) -> dict[str, str]:
        """Return the job's variables, with the folder of the compile cache in the container.

        What inductor compiled is kept in S3, per image, so that later jobs find it. Other jobs on spot capacity keep it
        with their checkpoints, so that a start after an interruption finds it.
        """
        variables = dict(spec.environment)
        if CACHE_VARIABLE not in variables:
            return variables
        if spec.compiler == "inductor" and not self.fields.get("isolate_network"):
            variables[CACHE_VARIABLE] = "/tmp/compile-cache"
            variables["TRAINFARE_COMPILED_URI"] = self.storage.uri("compiled", digest(image, 16))
            if key := self.fields.get("output_key"):
                variables["TRAINFARE_COMPILED_KMS_KEY"] = key
        else:
            variables[CACHE_VARIABLE] = "/opt/ml/checkpoints/.compile-cache" if spec.spot else "/tmp/compile-cache"
        return variables

    def _put(self, uri: str, put: Callable[[Path], str]) -> str:
        path = local_folder(uri)
        if path is None:
            return uri
        if uri not in self._uris:
            self._uris[uri] = put(path)
        return self._uris[uri]


def open_aws_context(
    options: Mapping[str, Any], clients: Clients | None = None, *, is_read_only: bool = False
) -> AwsContext:
    """Return the context for an experiment's `aws` fields. Fields that are not set come from the SDK's configuration,
    and the tags of both are joined; of two with the same key, the experiment's counts.

    Pass `clients` to reuse existing ones of the same region. A read-only context creates no bucket, and uploads
    nothing. Raises AccessError or InputError before anything is uploaded or started.
    """
    defaults = sdk_defaults()
    tags = {**defaults.get("tags", {}), **options.get("tags", {})}
    options = {**defaults, **options, **({"tags": tags} if tags else {})}
    wait_minutes = options.get("credentials_wait_minutes", CREDENTIALS_WAIT_MINUTES)
    clients = clients or Clients(options.get("region"), options.get("profile"), wait_minutes)
    account, key = account_of(clients), options.get("output_key")
    role = role_of(clients, options.get("role"))
    prefix = "/".join(part for part in (options.get("bucket_prefix"), "trainfare") if part)
    bucket, exists = find_bucket(clients, account, options.get("bucket"))
    if not exists and not is_read_only:
        create_bucket(clients, bucket)
    missing = bucket if is_read_only and not exists else None
    storage = Storage(clients, bucket, prefix, key, is_read_only=is_read_only, missing_bucket=missing)
    sources = storage
    if options.get("source_uri"):
        location = urlparse(options["source_uri"])
        sources = Storage(clients, location.netloc, location.path.strip("/"), key, is_read_only=is_read_only)
    return AwsContext(
        clients=clients,
        role_arn=role,
        storage=storage,
        sources=sources,
        output_uri=(options.get("output_uri") or storage.uri("output")).rstrip("/"),
        checkpoint_uri=(options.get("checkpoint_uri") or storage.uri("checkpoints")).rstrip("/"),
        fields=job_fields(options),
    )


def job_fields(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are copied to each job, under the names of JobSpec."""
    fields = {name: options[name] for name in SPEC_FIELDS if name in options}
    return fields | {name: tuple(fields[name]) for name in ("subnets", "security_groups") if name in fields}


def sdk_defaults() -> dict[str, Any]:
    """Return the fields that the SDK's configuration sets. Raises InputError for an invalid file."""
    # Imported here because the import takes seconds.
    from sagemaker.core.config.config import load_sagemaker_config

    try:
        return read_defaults(load_sagemaker_config())
    # The SDK raises its own errors, and errors of jsonschema and YAML. Each message names the file.
    except Exception as error:
        raise InputError(f"The configuration file of SageMaker's SDK cannot be read: {first_line(error)}.") from error


def read_defaults(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that a configuration sets. Pure."""
    root = configuration.get("SageMaker", {})
    values = {name: _value(root, path) for name, path in CONFIG_PATHS.items()}
    tags = _value(root, ("TrainingJob", "Tags"))
    values["tags"] = {each["Key"]: each["Value"] for each in tags} if tags else None
    return {name: value for name, value in values.items() if value is not None}


def _value(tree: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        if not isinstance(tree, Mapping) or key not in tree:
            return None
        tree = tree[key]
    return tree
