"""Create, find, list and delete our models, endpoint configurations and endpoints."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from models.endpoints.sagemaker.requests import OWNER_TAG
from training.contract.errors import EndpointNotFound, EndpointTaken, InputError, JobExists, JobNotFound
from training.contract.retry import RetryPolicy
from training.services.sagemaker.aws_errors import translated
from training.services.sagemaker.clients import Clients

PAGE = 100
NOT_YET_SEEN = RetryPolicy(first_pause_seconds=0.5, longest_pause_seconds=8.0, total_seconds=15.5)
"""Retries until a new resource is visible everywhere, as CreateEndpoint's documentation recommends."""


class ChangeInProgress(Exception):
    """SageMaker rejects an update or deletion because it is still changing the resource."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Kind of resource, in SageMaker's spellings."""

    noun: str
    camel: str
    snake: str

    @property
    def name(self) -> str:
        """API field with a resource's name."""
        return f"{self.camel}Name"


ENDPOINT = Kind(noun="endpoint", camel="Endpoint", snake="endpoint")
CONFIG = Kind(noun="endpoint configuration", camel="EndpointConfig", snake="endpoint_config")
MODEL = Kind(noun="model", camel="Model", snake="model")
KINDS = (ENDPOINT, CONFIG, MODEL)
"""Kinds in the order of deletion: each refers to the next."""


@dataclass(frozen=True, kw_only=True)
class Resource:
    """A resource, as SageMaker describes it."""

    kind: Kind
    name: str
    arn: str
    description: Mapping[str, Any]
    """Description of the resource, or its shorter form from a list."""
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def endpoint(self) -> str | None:
        """Name of our endpoint that it belongs to; None if it is not ours."""
        return self.tags.get(OWNER_TAG)


@contextmanager
def endpoint_errors(name: str) -> Iterator[None]:
    """Translate SageMaker's refusals about an endpoint into our errors."""
    try:
        with translated(f"Endpoint {name}"):
            yield
    except JobNotFound as error:
        raise EndpointNotFound(str(error)) from error
    except JobExists as error:
        raise EndpointTaken(str(error)) from error


class Resources:
    """Access to the account's resources in one region. Holds no state of its own."""

    def __init__(self, clients: Clients, sleep: Callable[[float], object] = time.sleep) -> None:
        self._clients, self._sleep = clients, sleep

    @property
    def region(self) -> str:
        """The region."""
        return self._clients.region

    def create(self, kind: Kind, request: Mapping[str, Any], endpoint: str) -> None:
        """Create a resource, unless it exists because an earlier call's answer was lost or its command was killed.

        Raises EndpointTaken if a resource with this name exists for a different purpose; QuotaError, AccessError,
        InputError.
        """
        try:
            self._create_with_retries(kind, request, endpoint)
        except EndpointTaken as error:
            existing = self.find(kind, request[kind.name])
            if existing is None or existing.endpoint != endpoint or not _agrees(existing, request):
                raise EndpointTaken(
                    f"Endpoint {endpoint} cannot be created: {kind.noun} {request[kind.name]} exists in this region, "
                    f"but trainfare did not create it for this endpoint. Choose a different --name."
                ) from error

    def find(self, kind: Kind, name: str) -> Resource | None:
        """Return the resource with its description and tags; None if it does not exist."""
        description = self.describe(kind, name)
        return None if description is None else self._with_tags(kind, description)

    def describe(self, kind: Kind, name: str) -> Mapping[str, Any] | None:
        """Return the resource's description; None if it does not exist."""
        try:
            with endpoint_errors(name):
                return dict(self._call("describe", kind)(**{kind.name: name}))
        except EndpointNotFound:
            return None

    def owned(self, kind: Kind, containing: str | None = None) -> list[Resource]:
        """Return the resources with our tag. If `containing` is set, their names must contain it."""
        name_filter = {"NameContains": containing} if containing else {}
        with translated(f"The list of {kind.noun}s"):
            pages = self._sagemaker.get_paginator(f"list_{kind.snake}s").paginate(MaxResults=PAGE, **name_filter)
            listed = [each for page in pages for each in page[f"{kind.camel}s"]]
        resources = [self._with_tags(kind, each) for each in listed]
        return [each for each in resources if each is not None and each.endpoint is not None]

    def delete(self, resource: Resource) -> None:
        """Delete the resource, if it exists. Raises InProgress while SageMaker changes it."""
        assert resource.endpoint is not None, f"{resource.name} is not ours"
        try:
            with endpoint_errors(resource.endpoint):
                self._call("delete", resource.kind)(**{resource.kind.name: resource.name})
        except EndpointNotFound:
            return
        except InputError as error:
            if re.search(r"in-progress|in progress", str(error)):
                raise ChangeInProgress from error
            raise

    def set_tags(self, resource: Resource, tags: Mapping[str, str], without: tuple[str, ...] = ()) -> None:
        """Set tags, and remove the tags named in `without`."""
        with endpoint_errors(resource.name):
            pairs = [{"Key": name, "Value": value} for name, value in tags.items()]
            self._sagemaker.add_tags(ResourceArn=resource.arn, Tags=pairs)
            if without:
                self._sagemaker.delete_tags(ResourceArn=resource.arn, TagKeys=list(without))

    def update(self, name: str, config: str) -> None:
        """Update an endpoint to a different configuration. Raises InProgress while SageMaker changes it."""
        try:
            with endpoint_errors(name):
                self._sagemaker.update_endpoint(EndpointName=name, EndpointConfigName=config)
        except InputError as error:
            if re.search(r"in-progress|in progress", str(error)):
                raise ChangeInProgress from error
            raise

    def _create_with_retries(self, kind: Kind, request: Mapping[str, Any], endpoint: str) -> None:
        def create() -> None:
            with endpoint_errors(endpoint):
                self._call("create", kind)(**request)

        policy = replace(NOT_YET_SEEN, sleep=self._sleep)
        policy.call(create, is_transient=lambda error: isinstance(error, EndpointNotFound))

    def _with_tags(self, kind: Kind, description: Mapping[str, Any]) -> Resource | None:
        name, arn = description[kind.name], description[f"{kind.camel}Arn"]
        try:
            return Resource(kind=kind, name=name, arn=arn, description=description, tags=self._tags(name, arn))
        except EndpointNotFound:
            # Deleted since it was described or listed.
            return None

    def _tags(self, name: str, arn: str) -> dict[str, str]:
        with endpoint_errors(name):
            pages = self._sagemaker.get_paginator("list_tags").paginate(ResourceArn=arn)
            return {each["Key"]: each["Value"] for page in pages for each in page["Tags"]}

    def _call(self, verb: str, kind: Kind) -> Any:
        return getattr(self._sagemaker, f"{verb}_{kind.snake}")

    @property
    def _sagemaker(self) -> Any:
        return self._clients.get("sagemaker")


def _agrees(existing: Resource, request: Mapping[str, Any]) -> bool:
    """Return whether an endpoint has the requested configuration. Other kinds are identified by their names."""
    return existing.kind is not ENDPOINT or existing.description["EndpointConfigName"] == request["EndpointConfigName"]
