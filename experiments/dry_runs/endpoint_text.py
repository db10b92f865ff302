"""Endpoint of a deployment, in words."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.planning.command_plan import EndpointPlan
from reports.model.blocks import Definition
from reports.model.numbers import durations, money

ACTIONS = {
    "create": "is created",
    "replace": "is replaced: the model that it serves now answers until the new one does",
    "keep": "serves this model already, and stays as it is",
}
SECONDS_PER_HOUR = 3600


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
    yield Definition("Lifetime", _lifetime(endpoint))
    if endpoint.requests:
        yield Definition("Requests", "\n".join(_request(*each) for each in endpoint.requests))


def _cost(endpoint: EndpointPlan) -> str:
    if endpoint.usd_per_hour is None:
        return "unknown: the price of the instance type is unknown"
    hourly = f"{endpoint.usd_per_hour:.4g} USD per hour ({endpoint.price_source})"
    if endpoint.lifetime_seconds is None:
        return f"{hourly}, until it is undeployed"
    usd = endpoint.usd_per_hour * endpoint.lifetime_seconds / SECONDS_PER_HOUR
    return f"{hourly}; {money(usd)} USD up to the end of its lifetime"


def _lifetime(endpoint: EndpointPlan) -> str:
    if endpoint.lifetime_seconds is None:
        return "unlimited"
    action = "deletes it" if endpoint.when_over == "delete" else "prints a warning"
    return f"{durations(endpoint.lifetime_seconds)[0]}; the next command after that {action}"


def _request(operation: str, request: object) -> str:
    names = request if isinstance(request, dict) else {}
    name = next((str(value) for key, value in names.items() if key.endswith("Name")), "")
    return f"{operation} {name}"
