"""Endpoint of a deployment, in words."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.planning.command_plan import EndpointPlan
from reports.model.report import Definition

ACTIONS = {
    "create": "is created",
    "replace": "is replaced: the model that it serves now answers until the new one does",
    "keep": "serves this model already, and stays as it is",
}


def endpoint_definitions(endpoint: EndpointPlan) -> Iterator[Definition]:
    """Yield the model, the machine, the effect, the cost and the requests."""
    yield Definition("Endpoint", f"{endpoint.name} {ACTIONS[endpoint.action]}")
    yield Definition("Model", endpoint.model + ("" if endpoint.is_fetched else ", not fetched yet"))
    machine = "this machine" if endpoint.service == "local" else f"{endpoint.machines} x {endpoint.machine}"
    yield Definition("Machine", machine)
    if endpoint.image:
        yield Definition("Image", endpoint.image)
    if endpoint.service != "local":
        yield Definition("Cost", _cost(endpoint))
    if endpoint.requests:
        yield Definition("Requests", "\n".join(_request(*each) for each in endpoint.requests))


def _cost(endpoint: EndpointPlan) -> str:
    if endpoint.usd_per_hour is None:
        return "unknown: the price of the instance type is unknown"
    return f"{endpoint.usd_per_hour:.4g} USD per hour ({endpoint.price_source}), until it is undeployed"


def _request(operation: str, request: object) -> str:
    names = request if isinstance(request, dict) else {}
    name = next((str(value) for key, value in names.items() if key.endswith("Name")), "")
    return f"{operation} {name}"
