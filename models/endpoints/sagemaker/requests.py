"""Requests for a model, an endpoint configuration and an endpoint, with their names and tags. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from models.endpoints.protocol import EndpointSpec, WhenOver
from models.endpoints.sagemaker.logs import VARIANT

OWNER_TAG = "trainfare:endpoint"
"""Tag that marks our resources; its value is the endpoint's name."""
PREFIX = "trainfare-"
"""Prefix of the names of our models and endpoint configurations."""
LIFETIME = ("trainfare:expires", "trainfare:when-over")
"""The tags of a lifetime."""
TAG_VALUE = re.compile(r"[\w .:/=+\-@]{0,256}")
"""SageMaker's rule for a tag's value."""


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """Content of the requests for a model, a configuration and an endpoint."""

    name: str
    """Name of the endpoint."""
    image: str
    model_data: str
    """S3 URI of a model.tar.gz."""
    environment: Mapping[str, str]
    machine: str
    machines: int
    role_arn: str
    identity: str
    """Identity of the model, in the form of a tag's value."""
    extra_tags: Mapping[str, str] = field(default_factory=dict)
    """Tags in addition to those that follow from the other fields."""
    network: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """`Subnets` and `SecurityGroupIds`, or empty."""
    is_isolated: bool = False
    volume_key: str | None = None
    ami: str | None = None
    """Version of the machines' system image, with the GPU driver. None: SageMaker chooses it."""

    @property
    def key(self) -> str:
        """Key of the deployment. Equal requests have equal keys."""
        archive_files = [
            self.image,
            self.model_data,
            dict(self.environment),
            self.machine,
            self.machines,
            self.role_arn,
        ]
        archive_files += [self.identity, dict(self.network), self.is_isolated, self.volume_key]
        # Without a version, the key stays that of endpoints which were deployed before there was this field.
        archive_files += [self.ami] if self.ami else []
        return hashlib.sha256(json.dumps(archive_files, sort_keys=True).encode()).hexdigest()[:10]

    @property
    def part(self) -> str:
        """Name of the model and the configuration, unique to this deployment, at most 63 characters."""
        return part_prefix(self.name) + self.key

    @property
    def tags(self) -> list[dict[str, str]]:
        """Tags of the model, the configuration and the endpoint."""
        owned = {
            OWNER_TAG: self.name,
            "trainfare:deployment": self.key,
            "trainfare:identity": self.identity,
            "trainfare:machine": self.machine,
            "trainfare:machines": str(self.machines),
        }
        return [{"Key": name, "Value": value} for name, value in {**self.extra_tags, **owned}.items()]

    @property
    def lifetime(self) -> dict[str, str]:
        """Tags of the lifetime; empty if it has no end."""
        return {name: value for name, value in self.extra_tags.items() if name in LIFETIME}

    def requests(self) -> tuple[tuple[str, dict[str, Any]], ...]:
        """Return the operations that create the deployment, in order, each with its request."""
        return (
            ("CreateModel", self.model_request()),
            ("CreateEndpointConfig", self.config_request()),
            ("CreateEndpoint", self.endpoint_request()),
        )

    def model_request(self) -> dict[str, Any]:
        """Return the request for CreateModel."""
        container = {"Image": self.image, "Environment": dict(self.environment), "ModelDataUrl": self.model_data}
        network = {name: list(values) for name, values in self.network.items()}
        return {
            "ModelName": self.part,
            "ExecutionRoleArn": self.role_arn,
            "PrimaryContainer": container,
            "Tags": self.tags,
            **({"VpcConfig": network} if network else {}),
            **({"EnableNetworkIsolation": True} if self.is_isolated else {}),
        }

    def config_request(self) -> dict[str, Any]:
        """Return the request for CreateEndpointConfig."""
        variant = {
            "VariantName": VARIANT,
            "ModelName": self.part,
            "InitialVariantWeight": 1,
            "InitialInstanceCount": self.machines,
            "InstanceType": self.machine,
            **({"InferenceAmiVersion": self.ami} if self.ami else {}),
        }
        return {
            "EndpointConfigName": self.part,
            "ProductionVariants": [variant],
            "Tags": self.tags,
            **({"KmsKeyId": self.volume_key} if self.volume_key else {}),
        }

    def endpoint_request(self) -> dict[str, Any]:
        """Return the request for CreateEndpoint."""
        return {"EndpointName": self.name, "EndpointConfigName": self.part, "Tags": self.tags}


def part_prefix(name: str) -> str:
    """Return the prefix of the names of an endpoint's models and configurations. Long endpoint names may share it."""
    return f"{PREFIX}{name[:40].rstrip('-')}-"


def identity_tag(identity: str) -> str:
    """Return a model's identity as a tag's value: a run id, or the digest of a path."""
    if TAG_VALUE.fullmatch(identity) and identity.isascii():
        return identity
    return "folder:" + hashlib.sha256(identity.encode()).hexdigest()[:32]


def extra_tags(spec: EndpointSpec, now: datetime) -> dict[str, str]:
    """Return the tags for an endpoint's model and lifetime."""
    tags = {"trainfare:run": spec.run_id, "trainfare:model": spec.model_id}
    if spec.lifetime_seconds is not None:
        tags |= lifetime_tags(now + timedelta(seconds=spec.lifetime_seconds), spec.when_over)
    return {name: value for name, value in tags.items() if value}


def lifetime_tags(expires: datetime, when_over: WhenOver) -> dict[str, str]:
    """Return the tags of a lifetime."""
    return dict(zip(LIFETIME, (expires.isoformat(timespec="seconds"), when_over), strict=True))
