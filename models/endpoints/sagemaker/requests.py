"""Requests for a model, an endpoint configuration and an endpoint, with their names and tags. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

OWNER_TAG = "trainfare:endpoint"
"""Tag that marks our resources; its value is the endpoint's name."""
PREFIX = "trainfare-"
"""Prefix of the names of our models and endpoint configurations."""
VARIANT = "AllTraffic"
"""Name of the only variant that we create. The names of log streams begin with it."""
TAG_VALUE = re.compile(r"[\w .:/=+\-@]{0,256}", re.ASCII)
"""SageMaker's rule for a tag's value, as far as it is ASCII."""
PIPELINES = {
    "classification": "text-classification",
    "question-answering": "question-answering",
    "causal-lm": "text-generation",
}
"""Our tasks, by the names of Hugging Face's inference toolkit: HF_TASK names the pipeline that it creates
(aws/sagemaker-huggingface-inference-toolkit 2.6.0, `handler_service.py`)."""


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
        """Digest of what the requests say. Equal requests have equal keys, also those of earlier versions."""
        model = [self.image, self.model_data, dict(self.environment), self.machine, self.machines, self.role_arn]
        settings = [self.identity, dict(self.network), self.is_isolated, self.volume_key]
        text = json.dumps([*model, *settings, *([self.ami] if self.ami else [])], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:10]

    @property
    def part(self) -> str:
        """Name of the model and the configuration, unique to this deployment, at most 63 characters."""
        return part_prefix(self.name) + self.key

    @property
    def tags(self) -> dict[str, str]:
        """Tags of the model, the configuration and the endpoint."""
        return {
            **self.extra_tags,
            OWNER_TAG: self.name,
            "trainfare:deployment": self.key,
            "trainfare:identity": self.identity,
            "trainfare:machine": self.machine,
            "trainfare:machines": str(self.machines),
        }

    def requests(self) -> tuple[tuple[str, dict[str, Any]], ...]:
        """Return the operations that create the deployment, in order, each with its request."""
        tags = [{"Key": name, "Value": value} for name, value in self.tags.items()]
        container = {"Image": self.image, "Environment": dict(self.environment), "ModelDataUrl": self.model_data}
        network = {name: list(values) for name, values in self.network.items()}
        model = {
            "ModelName": self.part,
            "ExecutionRoleArn": self.role_arn,
            "PrimaryContainer": container,
            "Tags": tags,
            **({"VpcConfig": network} if network else {}),
            **({"EnableNetworkIsolation": True} if self.is_isolated else {}),
        }
        variant = {
            "VariantName": VARIANT,
            "ModelName": self.part,
            "InitialVariantWeight": 1,
            "InitialInstanceCount": self.machines,
            "InstanceType": self.machine,
            **({"InferenceAmiVersion": self.ami} if self.ami else {}),
        }
        configuration = {
            "EndpointConfigName": self.part,
            "ProductionVariants": [variant],
            "Tags": tags,
            **({"KmsKeyId": self.volume_key} if self.volume_key else {}),
        }
        endpoint = {"EndpointName": self.name, "EndpointConfigName": self.part, "Tags": tags}
        return ("CreateModel", model), ("CreateEndpointConfig", configuration), ("CreateEndpoint", endpoint)


def part_prefix(name: str) -> str:
    """Return the prefix of the names of an endpoint's models and configurations. Long endpoint names may share it."""
    return f"{PREFIX}{name[:40].rstrip('-')}-"


def identity_tag(identity: str) -> str:
    """Return a model's identity as a tag's value: a run id, or the digest of a path."""
    if TAG_VALUE.fullmatch(identity):
        return identity
    return "folder:" + hashlib.sha256(identity.encode()).hexdigest()[:32]


def environment(task: str, region: str) -> dict[str, str]:
    """Return the container's environment variables: the relevant ones of SageMaker's SDK v2, and the task."""
    return {"HF_TASK": PIPELINES[task], "SAGEMAKER_CONTAINER_LOG_LEVEL": "20", "SAGEMAKER_REGION": region}
