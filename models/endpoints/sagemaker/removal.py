"""Delete an endpoint and its resources, and no others."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from models.endpoints.protocol import Echo
from models.endpoints.sagemaker.requests import lifetime_tags, part_prefix
from models.endpoints.sagemaker.resources import CONFIG, ENDPOINT, MODEL, ChangeInProgress, Resource, Resources
from models.endpoints.sagemaker.waiting import WaitPolicy
from training.contract.errors import EndpointFailed, EndpointNotFound, TrainfareError


@dataclass(frozen=True, kw_only=True)
class EndpointRemover:
    """Deletes endpoints, and their configurations and models once no other endpoint uses them."""

    resources: Resources
    waiting: WaitPolicy
    echo: Echo

    def resources_of(self, name: str) -> list[Resource]:
        """Return the existing resources of an endpoint that trainfare created: endpoint, configurations, models."""
        endpoint = self.resources.find(ENDPOINT, name)
        owned = [endpoint] if endpoint and endpoint.endpoint == name else []
        for kind in (CONFIG, MODEL):
            owned += [each for each in self.resources.owned(kind, part_prefix(name)) if each.endpoint == name]
        return owned

    def remove(self, resources: Iterable[Resource]) -> None:
        """Delete the resources of one endpoint, starting with the endpoint.

        A configuration is in use as long as its endpoint exists, so an error for the endpoint is raised immediately. If
        a configuration or model cannot be deleted, the others are still deleted, and then the first error is raised.
        """
        chosen = list(resources)
        endpoints = [each for each in chosen if each.kind is ENDPOINT]
        for each in endpoints:
            self._delete_endpoint(each)
        failed: TrainfareError | None = None
        for kind in (CONFIG, MODEL):
            for each in (one for one in chosen if one.kind is kind):
                try:
                    self.resources.delete(each)
                except TrainfareError as error:
                    failed = failed or error
        if failed:
            raise failed

    def wait_until_deleted(self, name: str) -> None:
        """Wait until the endpoint is deleted. Raises EndpointFailed if it is not."""
        for _ in self.waiting.checks(f"Endpoint {name} is being deleted:", self.waiting.delete_seconds, self.echo):
            if self.resources.describe(ENDPOINT, name) is None:
                return
        raise EndpointFailed(
            f"Endpoint {name} is still being deleted after {self.waiting.delete_seconds:.0f} s: run the same command "
            f"again later."
        )

    def _delete_endpoint(self, endpoint: Resource) -> None:
        name, is_marked = endpoint.name, False
        what = f"Waiting until SageMaker allows endpoint {name} to be deleted:"
        for _ in self.waiting.checks(what, self.waiting.delete_seconds, self.echo):
            try:
                self.resources.delete(endpoint)
                return self.wait_until_deleted(name)
            except ChangeInProgress:
                if not is_marked:
                    is_marked = True
                    self._mark(endpoint)
        raise EndpointFailed(
            f"Endpoint {name} cannot be deleted: SageMaker has been changing it for "
            f"{self.waiting.delete_seconds:.0f} s. Undeploy it later, because it costs money as soon as it runs."
        )

    def _mark(self, endpoint: Resource) -> None:
        """Mark the endpoint so that the next command deletes it if this one is killed."""
        self.echo(f"Endpoint {endpoint.name} cannot be deleted while SageMaker is changing it; waiting.")
        with suppress(EndpointNotFound):
            self.resources.set_tags(endpoint, lifetime_tags(datetime.now(UTC), "delete"))
