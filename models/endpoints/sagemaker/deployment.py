"""Create an endpoint from its requests, replace its model, and undo a failed deployment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from models.endpoints.protocol import Echo
from models.endpoints.sagemaker.endpoint_state import DEAD
from models.endpoints.sagemaker.removal import EndpointRemover
from models.endpoints.sagemaker.requests import Deployment
from models.endpoints.sagemaker.resources import CONFIG, ENDPOINT, MODEL, ChangeInProgress, Resource, Resources
from models.endpoints.sagemaker.waiting import WaitPolicy
from training.contract.errors import EndpointFailed, EndpointTaken, TrainfareError

WORKING = frozenset({"Creating", "Updating", "SystemUpdating", "RollingBack"})


@dataclass(frozen=True, kw_only=True)
class EndpointDeployer:
    """Deploys one model to one endpoint."""

    deployment: Deployment
    resources: Resources
    waiting: WaitPolicy
    wait_seconds: float
    log: str
    """Location of the endpoint's log."""
    last_lines: Callable[[datetime], Sequence[str]]
    """Returns the last log lines of its containers since a time."""
    echo: Echo

    def current(self) -> Resource | None:
        """Return the existing endpoint with this name. A failed one is deleted first.

        Raises EndpointTaken if trainfare did not create the endpoint.
        """
        name = self.deployment.name
        endpoint = self.resources.find(ENDPOINT, name)
        if endpoint is None:
            return None
        self.check_own(endpoint)
        status = endpoint.description["EndpointStatus"]
        if status == "Deleting":
            self._remover.wait_until_deleted(name)
            return None
        if status in DEAD:
            self.echo(f"Endpoint {name} is {status}: deleting it and creating it again.")
            self._remover.remove(self._remover.resources_of(name))
            return None
        return endpoint

    def check_own(self, endpoint: Resource) -> None:
        """Raise EndpointTaken for an endpoint that trainfare did not create."""
        name = self.deployment.name
        if endpoint.endpoint != name:
            raise EndpointTaken(
                f"Endpoint {name} exists in this region, but trainfare did not create it: choose a different --name."
            )

    def serves(self, endpoint: Resource) -> bool:
        """Return whether the endpoint serves this deployment, or is being updated to it."""
        pending = endpoint.description.get("PendingDeploymentSummary", {}).get("EndpointConfigName")
        return str(pending or endpoint.description["EndpointConfigName"]) == self.deployment.part

    def create(self) -> None:
        """Create the missing resources and return once the endpoint answers. Call it inside `undo_on_failure`."""
        self._create_parts()
        self.resources.create(ENDPOINT, self.deployment.endpoint_request(), self.deployment.name)
        self.wait("Creating")

    @contextmanager
    def undo_on_failure(self) -> Iterator[None]:
        """Delete what was created if the block is interrupted by a refusal, a failure or Ctrl-C."""
        try:
            yield
        except BaseException as error:
            self.echo(f"Endpoint {self.deployment.name}: deleting everything that was created for it.")
            try:
                endpoint = self.resources.find(ENDPOINT, self.deployment.name)
                # A different command may have created an endpoint with this name in the meantime.
                mine = [endpoint] if endpoint and endpoint.endpoint == endpoint.name and self.serves(endpoint) else []
                self._remover.remove([*mine, *self._parts()])
            except (TrainfareError, KeyboardInterrupt) as again:
                reason = str(again) or "interrupted again"
                error.add_note(
                    f"Endpoint {self.deployment.name} could not be deleted completely ({reason}): undeploy it, because "
                    f"it may cost money."
                )
            raise

    def replace(self) -> None:
        """Update the existing endpoint to this deployment. The old model answers until the update is complete."""
        try:
            self._create_parts()
            self._update()
            self.wait("Updating")
        except TrainfareError:
            self._remove_parts()
            raise
        except KeyboardInterrupt as end:
            end.add_note(f"Endpoint {self.deployment.name} is still being updated; run the same command to follow it.")
            raise

    def wait(self, verb: str) -> None:
        """Wait until the endpoint answers from this deployment. Raises EndpointFailed."""
        name, status = self.deployment.name, verb
        for _ in self.waiting.checks(f"Endpoint {name}: {verb}...", self.wait_seconds, self.echo):
            description = self.resources.describe(ENDPOINT, name)
            if description is None:
                raise EndpointFailed(f"Endpoint {name} was deleted while it was being created.")
            status = description["EndpointStatus"]
            if status == "InService" and description["EndpointConfigName"] == self.deployment.part:
                return
            if status not in WORKING:
                raise EndpointFailed(f"Endpoint {name} failed: {_reason(description)} ({self._log(description)}).")
        raise EndpointFailed(
            f"Endpoint {name} does not answer after {self.wait_seconds:.0f} s: its status is {status} "
            f"(log: {self.log})."
        )

    def finish(self, billed: Mapping[str, str]) -> None:
        """Delete the endpoint's unused resources and update its tags. `billed` are the tags for earlier costs."""
        name, part = self.deployment.name, self.deployment.part
        others = [each for each in self._remover.resources_of(name) if each.kind is not ENDPOINT and each.name != part]
        self._remover.remove(others)
        endpoint = self.resources.find(ENDPOINT, name)
        if endpoint is None:
            return
        if endpoint.tags.get("trainfare:deployment") != self.deployment.key:
            now = {each["Key"]: each["Value"] for each in self.deployment.tags} | dict(billed)
            old = tuple(each for each in endpoint.tags if each.startswith("trainfare:") and each not in now)
            self.resources.set_tags(endpoint, now, without=old)
        elif not self.deployment.lifetime.items() <= endpoint.tags.items():
            self.resources.set_tags(endpoint, self.deployment.lifetime, without=())

    def _log(self, description: Mapping[str, Any]) -> str:
        lines = self.last_lines(description["CreationTime"])
        return f"log: {self.log}" + (f"; its last lines: {' | '.join(lines)}" if lines else "")

    def _create_parts(self) -> None:
        self.resources.create(MODEL, self.deployment.model_request(), self.deployment.name)
        self.resources.create(CONFIG, self.deployment.config_request(), self.deployment.name)

    def _update(self) -> None:
        what = f"Waiting until SageMaker completes an earlier change of endpoint {self.deployment.name}:"
        for _ in self.waiting.checks(what, self.wait_seconds, self.echo):
            try:
                return self.resources.update(self.deployment.name, self.deployment.part)
            except ChangeInProgress:
                continue
        raise EndpointFailed(f"Endpoint {self.deployment.name} is still being changed by SageMaker: try again later.")

    def _remove_parts(self) -> None:
        """Delete the model and the configuration, unless the endpoint uses them."""
        endpoint = self.resources.find(ENDPOINT, self.deployment.name)
        if endpoint is None or not self.serves(endpoint):
            self._remover.remove(self._parts())

    def _parts(self) -> list[Resource]:
        parts = [self.resources.find(kind, self.deployment.part) for kind in (CONFIG, MODEL)]
        return [each for each in parts if each is not None and each.endpoint == self.deployment.name]

    @property
    def _remover(self) -> EndpointRemover:
        return EndpointRemover(resources=self.resources, waiting=self.waiting, echo=self.echo)


def _reason(description: Mapping[str, Any]) -> str:
    status = description["EndpointStatus"]
    silent = "SageMaker restored the previous deployment" if status == "InService" else f"its status is {status}"
    return str(description.get("FailureReason") or silent).strip().rstrip(".")
