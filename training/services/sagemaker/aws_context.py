"""AWS account, role, bucket and network of jobs, and the upload of a job's source and data."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from training.contract.errors import InputError
from training.contract.job_spec import JobSpec
from training.contract.script_mode import launcher_of
from training.services.sagemaker.clients import Clients
from training.services.sagemaker.identity import account_of, role_of
from training.services.sagemaker.images import default_image
from training.services.sagemaker.sdk_defaults import sdk_defaults
from training.services.sagemaker.sdk_rules import advice, check_sdk_rules
from training.services.sagemaker.storage import Storage, find_bucket, session_bucket

SPEC_FIELDS = ("subnets", "security_groups", "isolate_network", "encrypt_traffic", "volume_key", "output_key", "tags")
"""Fields of an experiment's `aws` that are copied to each job."""

CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
"""Variable with the folder in which torch keeps what it compiled."""

Log = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class AwsContext:
    """Settings that all jobs of one account and region share."""

    clients: Clients
    role_arn: str
    storage: Storage
    fields: Mapping[str, Any]
    """Values of those `SPEC_FIELDS` that are set."""
    _uris: dict[str, str] = field(default_factory=dict)
    """Uploads so far: local URI to S3 URI."""

    def resolve(self, spec: JobSpec) -> JobSpec:
        """Return the job as it will run on AWS, before its upload. Raises InputError if it cannot run."""
        region = self.clients.region
        image = default_image(spec.compiler, spec.instance_type, region) if spec.image == "local" else spec.image
        resolved = spec.model_copy(
            update={
                "region": region,
                "role_arn": self.role_arn,
                "image": image,
                "output_uri": self.storage.uri("output"),
                "checkpoint_uri": self.storage.uri("checkpoints", spec.name) if spec.checkpoint_uri else None,
                "environment": self._environment(spec, image),
                **self.fields,
            }
        )
        check_sdk_rules(resolved)
        _check_devices(resolved, gpu_count(spec.instance_type, region))
        return resolved

    def upload(self, spec: JobSpec, log: Log) -> JobSpec:
        """Upload the job's source and channels, each once, and return the job with their S3 URIs."""
        resolved = self.resolve(spec)
        for note in advice(resolved):
            log(f"Note: {note}")
        return resolved.model_copy(
            update={
                "source_uri": self._put(spec.source_uri, lambda folder: self.storage.put_source(folder)),
                "channels": {
                    name: self._put(uri, lambda folder: self.storage.put_folder(folder, "data", log))
                    for name, uri in spec.channels.items()
                },
            }
        )

    def _environment(self, spec: JobSpec, image: str) -> dict[str, str]:
        """Return the job's variables, with the folder of the compile cache in the container.

        What inductor compiled is kept in S3, per image, so that later jobs find it. The folder of other jobs is that of
        their checkpoints, if they keep any, so that a start after an interruption finds it.
        """
        variables = dict(spec.environment)
        if CACHE_VARIABLE not in variables:
            return variables
        caches = "TORCHINDUCTOR_FORCE_DISABLE_CACHES" not in variables
        if spec.compiler == "inductor" and caches and not self.fields.get("isolate_network"):
            variables[CACHE_VARIABLE] = "/tmp/compile-cache"
            name = hashlib.sha256(image.encode()).hexdigest()[:16]
            variables["TRAINFARE_COMPILED_URI"] = self.storage.uri("compiled", name)
            if key := self.fields.get("output_key"):
                variables["TRAINFARE_COMPILED_KMS_KEY"] = key
        else:
            keeps = spec.checkpoint_uri is not None
            variables[CACHE_VARIABLE] = "/opt/ml/checkpoints/.compile-cache" if keeps else "/tmp/compile-cache"
        return variables

    def _put(self, uri: str, put: Callable[[Path], str]) -> str:
        if not uri.startswith("file://"):
            return uri
        if uri not in self._uris:
            self._uris[uri] = put(Path(unquote(urlparse(uri).path)))
        return self._uris[uri]


def open_aws_context(
    options: Mapping[str, Any], clients: Clients | None = None, *, is_read_only: bool = False
) -> AwsContext:
    """Return the context for an experiment's `aws` fields. Fields that are not set come from the SDK's configuration.

    Pass `clients` to reuse existing ones of the same region. A read-only context creates no bucket, and uploads
    nothing. Raises AccessError or InputError before anything is uploaded or started.
    """
    options = {**sdk_defaults(), **options}
    clients = clients or Clients(options.get("region"))
    account = account_of(clients)
    role = role_of(clients, options.get("role"))
    storage = _storage(clients, account, options, is_read_only)
    fields = {name: options[name] for name in SPEC_FIELDS if name in options}
    fields |= {name: tuple(fields[name]) for name in ("subnets", "security_groups") if name in fields}
    return AwsContext(clients=clients, role_arn=role, storage=storage, fields=fields)


def _storage(clients: Clients, account: str, options: Mapping[str, Any], is_read_only: bool) -> Storage:
    prefix = "/".join(part for part in (options.get("bucket_prefix"), "trainfare") if part)
    if not is_read_only:
        bucket = session_bucket(clients, account, options.get("bucket"))
        return Storage(clients, bucket, prefix, options.get("output_key"))
    bucket, exists = find_bucket(clients, account, options.get("bucket"))
    missing = None if exists else bucket
    return Storage(clients, bucket, prefix, options.get("output_key"), is_read_only=True, missing_bucket=missing)


def gpu_count(instance_type: str, region: str) -> int | None:
    """Return the number of GPUs of an instance type, or None if the SDK (sagemaker-core 2.27.0) does not list it."""
    # Imported here because the import takes a second.
    from sagemaker.core import instance_types_gpu_info

    info = instance_types_gpu_info.retrieve(region).get(instance_type)
    return None if info is None else int(info["Count"])


def _check_devices(spec: JobSpec, gpus: int | None) -> None:
    """Raise InputError if `devices` is not the number of GPUs.

    SageMaker's launchers start a process on each GPU. With any other number, the learning rate would be scaled wrongly.
    """
    if gpus is not None and launcher_of(spec) is not None and spec.devices != gpus:
        raise InputError(
            f"machine.devices is {spec.devices}, but {spec.instance_type} has {gpus} GPUs, and launcher "
            f"'{launcher_of(spec)}' starts one process on each GPU."
        )
