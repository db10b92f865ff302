"""Where jobs run at AWS: account, role, bucket and network; and what of a job has to be there before it starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from training.contract.errors import InputError
from training.contract.job_spec import JobSpec
from training.contract.script_mode import launcher_of
from training.services.sagemaker.clients import Clients
from training.services.sagemaker.gpus import gpu_count
from training.services.sagemaker.identity import account_of, role_of
from training.services.sagemaker.images import default_image
from training.services.sagemaker.sdk_defaults import sdk_defaults
from training.services.sagemaker.sdk_rules import advice, check_sdk_rules
from training.services.sagemaker.storage import Storage, session_bucket

SPEC_FIELDS = ("subnets", "security_groups", "isolate_network", "encrypt_traffic", "volume_key", "output_key", "tags")
"""Fields of an experiment's `aws` that a job takes as they are."""

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Site:
    """One account and region, with all that its jobs share."""

    clients: Clients
    role_arn: str
    storage: Storage
    fields: Mapping[str, Any]
    """Those of `SPEC_FIELDS` that are set."""
    _uris: dict[str, str] = field(default_factory=dict)
    """Where what lies here was put: local URI to S3 URI."""

    def placed(self, spec: JobSpec) -> JobSpec:
        """Return the job as it will stand at AWS, its data not yet there. Raises InputError for what cannot run."""
        region = self.clients.region
        image = default_image(spec.compiler, spec.instance_type, region) if spec.image == "local" else spec.image
        placed = spec.model_copy(
            update={
                "region": region,
                "role_arn": self.role_arn,
                "image": image,
                "output_uri": self.storage.uri("output"),
                "checkpoint_uri": self.storage.uri("checkpoints", spec.name) if spec.checkpoint_uri else None,
                "environment": _environment(spec),
                **self.fields,
            }
        )
        check_sdk_rules(placed)
        _check_devices(placed, gpu_count(spec.instance_type, region))
        return placed

    def shipped(self, spec: JobSpec, say: Say) -> JobSpec:
        """Return the job with its source and channels uploaded, each once."""
        placed = self.placed(spec)
        for note in advice(placed):
            say(f"Note: {note}")
        return placed.model_copy(
            update={
                "source_uri": self._put(spec.source_uri, lambda folder: self.storage.put_source(folder)),
                "channels": {
                    name: self._put(uri, lambda folder: self.storage.put_folder(folder, "data", say))
                    for name, uri in spec.channels.items()
                },
            }
        )

    def _put(self, uri: str, put: Callable[[Path], str]) -> str:
        if not uri.startswith("file://"):
            return uri
        if uri not in self._uris:
            self._uris[uri] = put(Path(unquote(urlparse(uri).path)))
        return self._uris[uri]


def open_site(given: Mapping[str, Any], clients: Clients | None = None) -> Site:
    """Return the site for an experiment's `aws` fields, the SDK's configuration filling what they leave out.

    `clients` are those of the same region, where there are some already. Raises AccessError, InputError: before
    anything is uploaded or started.
    """
    wanted = {**sdk_defaults(), **given}
    clients = clients or Clients(wanted.get("region"))
    account = account_of(clients)
    role = role_of(clients, wanted.get("role"))
    bucket = session_bucket(clients, account, wanted.get("bucket"))
    prefix = "/".join(part for part in (wanted.get("bucket_prefix"), "trainfare") if part)
    storage = Storage(clients, bucket, prefix, wanted.get("output_key"))
    fields = {name: wanted[name] for name in SPEC_FIELDS if name in wanted}
    fields |= {name: tuple(fields[name]) for name in ("subnets", "security_groups") if name in fields}
    return Site(clients=clients, role_arn=role, storage=storage, fields=fields)


def _environment(spec: JobSpec) -> dict[str, str]:
    """Return the variables with the compiler's cache where the container has room for it, and keeps it."""
    variables = dict(spec.environment)
    if "TORCHINDUCTOR_CACHE_DIR" in variables:
        kept = "/opt/ml/checkpoints/.compile-cache" if spec.checkpoint_uri else "/tmp/compile-cache"
        variables["TORCHINDUCTOR_CACHE_DIR"] = kept
    return variables


def _check_devices(spec: JobSpec, gpus: int | None) -> None:
    """A launcher of SageMaker's starts a process on each GPU: counted otherwise, the rate would be scaled wrongly."""
    if gpus is not None and launcher_of(spec) is not None and spec.devices != gpus:
        raise InputError(
            f"machine.devices is {spec.devices}, but {spec.instance_type} has {gpus} GPUs, and launcher "
            f"'{launcher_of(spec)}' starts a process on each."
        )
