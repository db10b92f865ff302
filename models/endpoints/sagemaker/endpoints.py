"""`Endpoints` on SageMaker, through boto3: creates models, endpoint configurations and endpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from models.endpoints.protocol import Action, DeploymentPlan, Echo, EndpointSpec, EndpointState
from models.endpoints.sagemaker import toolkit
from models.endpoints.sagemaker.archive import Archive
from models.endpoints.sagemaker.deployment import EndpointDeployer
from models.endpoints.sagemaker.endpoint_state import (
    DEAD,
    billing_tags,
    leftover_state,
    log_location,
    machine_of,
    state,
)
from models.endpoints.sagemaker.images import InferenceImage, check_ami, inference_image
from models.endpoints.sagemaker.invocation import invoke
from models.endpoints.sagemaker.logs import last_lines
from models.endpoints.sagemaker.removal import EndpointRemover
from models.endpoints.sagemaker.requests import PREFIX, Deployment, extra_tags, identity_tag
from models.endpoints.sagemaker.resources import CONFIG, ENDPOINT, MODEL, Resource, Resources
from models.endpoints.sagemaker.waiting import WaitPolicy
from training.contract.errors import EndpointNotFound, EndpointTaken, InputError, TrainfareError
from training.contract.price import Price
from training.services.sagemaker.aws_context import AwsContext, open_aws_context
from training.services.sagemaker.checks.local_disks import volume_key_of
from training.services.sagemaker.checks.request_rules import check_request
from training.services.sagemaker.clients import Clients
from training.services.sagemaker.identity import account_of
from training.services.sagemaker.prices import listed_price, table_price
from training.services.sagemaker.storage import Storage
from training.state.home import home

PriceOf = Callable[[str], Price | None]


class SageMakerEndpoints:
    """Endpoints of one account and region. It keeps no state: any process can query any endpoint."""

    name = "sagemaker"

    def __init__(
        self,
        clients: Clients,
        *,
        account: str,
        aws_context: Callable[[], AwsContext],
        image: str | None = None,
        ami: str | None = None,
        price_of: PriceOf = lambda _: None,
        waiting: WaitPolicy | None = None,
    ) -> None:
        """Initialize without calls to AWS.

        `account` is the AWS account number. `aws_context` returns the AWS context and is called on deployment
        only. `image` is used instead of AWS's inference image, and `ami` instead of SageMaker's choice of the
        machines' system image.
        """
        self.account, self.region = account, clients.region
        self._clients, self._aws_context, self._image, self._price_of = clients, aws_context, image, price_of
        self._ami = ami
        self._waiting = waiting or WaitPolicy()
        self._resources = Resources(clients, self._waiting.sleep)

    def deploy(self, spec: EndpointSpec, echo: Echo) -> EndpointState:
        """Deploy the model and return the endpoint once it answers. See `models.endpoints.protocol.Endpoints`."""
        image, model, deployment, _ = self._prepared(spec)
        deployer = self._deployer(spec, deployment, echo)
        endpoint = deployer.current()
        if endpoint is None:
            echo(f"Image: {image.uri}" + (f" ({image.note})" if image.note else ""))
            model.upload(echo)
        if endpoint is None or (deployer.serves(endpoint) and endpoint.description["EndpointStatus"] == "Creating"):
            with deployer.undo_on_failure():
                deployer.create()
                return self._finished(deployer)
        before = self._state(endpoint)
        if deployer.serves(endpoint):
            deployer.wait("Updating")
        else:
            _check_replaced(endpoint, spec, deployer.deployment)
            model.upload(echo)
            deployer.replace()
        return self._finished(deployer, billing_tags(before, datetime.now(UTC)))

    def plan(self, spec: EndpointSpec) -> DeploymentPlan:
        """Return the steps that `deploy` would take, and take none. See `models.endpoints.protocol.Endpoints`."""
        image, model, deployment, storage = self._prepared(spec)
        endpoint = self._resources.find(ENDPOINT, spec.name)
        action = self._action(endpoint, spec, deployment)
        *parts, last = deployment.requests()
        if action == "replace":
            last = ("UpdateEndpoint", {"EndpointName": spec.name, "EndpointConfigName": deployment.part})
        return DeploymentPlan(
            action=action,
            image=image.uri,
            note=image.note,
            requests=() if action == "keep" else (*parts, last),
            uploads=model.missing_bytes() if action != "keep" else {},
            missing_bucket=storage.missing_bucket,
            price=self._price_of(spec.machine),
        )

    def _action(self, endpoint: Resource | None, spec: EndpointSpec, deployment: Deployment) -> Action:
        """Return the effect on an existing endpoint. Raises EndpointTaken if it must not be replaced."""
        if endpoint is None:
            return "create"
        deployer = self._deployer(spec, deployment, lambda _: None)
        deployer.check_own(endpoint)
        if endpoint.description["EndpointStatus"] in {*DEAD, "Deleting"}:
            return "create"
        if deployer.serves(endpoint):
            return "keep"
        _check_replaced(endpoint, spec, deployment)
        return "replace"

    def _prepared(self, spec: EndpointSpec) -> tuple[InferenceImage, Archive, Deployment, Storage]:
        """Return the image, the archive and the requests of a deployment, before anything is created."""
        if not spec.machine.startswith("ml."):
            raise InputError(f"machine is '{spec.machine}': use a SageMaker instance type, such as ml.g4dn.xlarge.")
        if spec.precision not in {None, "auto"}:
            raise InputError(f"precision is '{spec.precision}': leave it out, because SageMaker's image decides it.")
        check_ami(self._clients, self._ami)
        aws_context, image = self._aws_context(), self._chosen_image(spec)
        task = toolkit.task_of(spec.task, spec.model)
        model = Archive(spec, aws_context, with_code=toolkit.needs_code(task))
        deployment = _deployment(spec, aws_context, image, task, model.uri, self._ami)
        service_model = self._clients.get("sagemaker").meta.service_model
        for operation, request in deployment.requests():
            check_request(service_model, operation, request)
        return image, model, deployment, aws_context.storage

    def predict(self, name: str, body: bytes) -> bytes:
        """Return the answer to one JSON request. See `models.endpoints.protocol.Endpoints`."""
        return invoke(self._clients, self._resources, name, body, self._log(name))

    def describe(self, name: str) -> EndpointState:
        """Return the endpoint's current state. Raises EndpointNotFound."""
        endpoint = self._resources.find(ENDPOINT, name)
        if endpoint and endpoint.endpoint == name:
            return self._state(endpoint)
        parts = self._remover(lambda _: None).resources_of(name)
        if not parts:
            raise EndpointNotFound(self._missing(name, endpoint))
        return leftover_state(parts, self._clients.region)

    def undeploy(self, name: str, echo: Echo) -> None:
        """Delete the endpoint with all of its resources. Raises EndpointNotFound."""
        remover = self._remover(echo)
        resources = remover.resources_of(name)
        if not resources:
            raise EndpointNotFound(self._missing(name, self._resources.find(ENDPOINT, name)))
        remover.remove(resources)

    def endpoints(self) -> list[EndpointState]:
        """Return all endpoints that trainfare created, and leftover resources of others, newest first."""
        living = self._resources.owned(ENDPOINT)
        names = {each.endpoint for each in living}
        parts = [each for kind in (CONFIG, MODEL) for each in self._resources.owned(kind, PREFIX)]
        lost = sorted((each for each in parts if each.endpoint not in names), key=_endpoint_name)
        states = [self._state(self._resources.find(ENDPOINT, each.name) or each) for each in living]
        states += [leftover_state(list(each), self._clients.region) for _, each in groupby(lost, _endpoint_name)]
        return sorted(states, key=lambda each: each.created, reverse=True)

    def _chosen_image(self, spec: EndpointSpec) -> InferenceImage:
        if self._image is None:
            return inference_image(spec.versions, spec.machine, self._clients.region)
        return InferenceImage(uri=self._image)

    def _finished(self, deployer: EndpointDeployer, billed: Mapping[str, str] = {}) -> EndpointState:
        deployer.finish(billed)
        return self.describe(deployer.deployment.name)

    def _deployer(self, spec: EndpointSpec, deployment: Deployment, echo: Echo) -> EndpointDeployer:
        return EndpointDeployer(
            deployment=deployment,
            resources=self._resources,
            waiting=self._waiting,
            wait_seconds=spec.wait_seconds,
            log=self._log(spec.name),
            last_lines=lambda since: last_lines(self._clients, spec.name, since),
            echo=echo,
        )

    def _remover(self, echo: Echo) -> EndpointRemover:
        return EndpointRemover(resources=self._resources, waiting=self._waiting, echo=echo)

    def price(self, machine: str) -> Price | None:
        """Return the price of one instance for hosting, or None if it is unknown."""
        return self._price_of(machine)

    def _state(self, endpoint: Resource) -> EndpointState:
        return state(endpoint, self._clients.region, self._price_of(machine_of(endpoint)))

    def _log(self, name: str) -> str:
        return log_location(name, self._clients.region)

    def _missing(self, name: str, endpoint: Resource | None) -> str:
        if endpoint is None:
            return f"Endpoint {name} does not exist on SageMaker in this account and region {self._clients.region}."
        return f"Endpoint {name} on SageMaker was not created by trainfare, so it was not changed."


def open_endpoints(
    aws_fields: Mapping[str, Any], echo: Echo, waiting: WaitPolicy | None = None, *, is_read_only: bool = False
) -> SageMakerEndpoints:
    """Return the endpoints of the account that an experiment's `aws` fields name. Read-only ones can only plan.

    The additional field `image` is the URI of a container image, to use instead of AWS's image for the training's
    versions, and `ami` the version of the machines' system image. Raises AccessError immediately if there are no
    credentials or no network; InputError.
    """
    fields = {name: value for name, value in aws_fields.items() if name not in {"image", "ami", "prices"}}
    clients = Clients(fields.get("region"), fields.get("profile"))
    account = account_of(clients)
    table = aws_fields.get("prices")

    def price_of(machine: str) -> Price | None:
        try:
            if table:
                return table_price(table, machine)
            cache = home() / "prices.json"
            return listed_price(clients, machine, cache, echo, "Hosting", is_read_only=is_read_only)
        except (TrainfareError, OSError, ValueError, LookupError, TypeError) as error:
            # An unknown price does not stop a deployment.
            echo(f"Note: costs are omitted: {error}")
            return None

    return SageMakerEndpoints(
        clients,
        account=account,
        aws_context=lambda: open_aws_context(fields, clients, is_read_only=is_read_only),
        image=aws_fields.get("image"),
        ami=aws_fields.get("ami"),
        price_of=price_of,
        waiting=waiting,
    )


def _deployment(
    spec: EndpointSpec, aws_context: AwsContext, image: InferenceImage, task: str, model_data: str, ami: str | None
) -> Deployment:
    network = {
        "Subnets": aws_context.fields.get("subnets", ()),
        "SecurityGroupIds": aws_context.fields.get("security_groups", ()),
    }
    return Deployment(
        name=spec.name,
        image=image.uri,
        model_data=model_data,
        environment=toolkit.environment(task, aws_context.clients.region),
        machine=spec.machine,
        machines=spec.machines,
        role_arn=aws_context.role_arn,
        identity=identity_tag(spec.identity),
        extra_tags={**aws_context.fields.get("tags", {}), **extra_tags(spec, datetime.now(UTC))},
        network={name: tuple(values) for name, values in network.items() if values},
        is_isolated=bool(aws_context.fields.get("isolate_network", False)),
        volume_key=volume_key_of([spec.machine], aws_context.fields.get("volume_key")),
        ami=ami,
    )


def _check_replaced(endpoint: Resource, spec: EndpointSpec, deployment: Deployment) -> None:
    if spec.replace:
        return
    tags = endpoint.tags
    serves = tags.get("trainfare:identity", "a different model")
    if serves != deployment.identity:
        differs = f"serves {serves}, not {deployment.identity}"
    elif tags.get("trainfare:machine") != deployment.machine or tags.get("trainfare:machines") != str(
        deployment.machines
    ):
        differs = f"runs on {tags.get('trainfare:machines')} x {tags.get('trainfare:machine')}"
    else:
        differs = "serves the same model with a different image, system image, archive, role or network"
    raise EndpointTaken(f"Endpoint {spec.name} {differs}: use --replace true, or choose a different --name.")


def _endpoint_name(part: Resource) -> str:
    return str(part.endpoint)
