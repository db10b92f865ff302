"""Derive an endpoint's state from SageMaker's description and our tags. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from models.endpoints.protocol import EndpointState, WhenOver
from models.endpoints.sagemaker.logs import GROUP
from models.endpoints.sagemaker.resources import Resource
from training.contract.price import Price
from training.services.sagemaker.partitions import log_address

DEAD = frozenset({"Failed", "OutOfService"})
"""Statuses of endpoints that neither answer nor cost anything."""
BILLED_FROM, BILLED_BEFORE = "trainfare:billed-from", "trainfare:billed-before"
LEFT_OVER = "LeftOver"
"""Status of models and configurations without an endpoint, left behind by a killed command."""


def log_location(name: str, region: str) -> str:
    """Return the location of an endpoint's log: its address in the AWS console, where that is known."""
    return log_address(region, f"{GROUP}{name}")


def state(endpoint: Resource, region: str, price: Price | None) -> EndpointState:
    """Return the state of an endpoint that trainfare created."""
    return EndpointState(
        name=endpoint.name,
        service="sagemaker",
        status=str(endpoint.description["EndpointStatus"]),
        address=endpoint.arn,
        created=endpoint.description["CreationTime"],
        reason=endpoint.description.get("FailureReason"),
        log=log_location(endpoint.name, region),
        price=price,
        billed_from=_time(endpoint.tags.get(BILLED_FROM)),
        billed_before_usd=_dollars(endpoint.tags.get(BILLED_BEFORE)),
        ended=endpoint.description["LastModifiedTime"] if endpoint.description["EndpointStatus"] in DEAD else None,
        **_fields_from_tags(endpoint),
    )


def billing_tags(state: EndpointState, now: datetime) -> dict[str, str]:
    """Return tags that record the costs so far of an endpoint that moves to different machines."""
    usd = state.usd_so_far(now)
    return {} if usd is None else {BILLED_FROM: now.isoformat(timespec="seconds"), BILLED_BEFORE: f"{usd:.4f}"}


def leftover_state(parts: Sequence[Resource], region: str) -> EndpointState:
    """Return the state of leftover resources without an endpoint. They cost nothing but occupy the name."""
    first = min(parts, key=lambda each: each.description["CreationTime"])
    nouns = " and ".join(sorted({f"its {each.kind.noun}" for each in parts}))
    return EndpointState(
        name=str(first.endpoint),
        service="sagemaker",
        status=LEFT_OVER,
        address=first.arn,
        created=first.description["CreationTime"],
        reason=f"the endpoint does not exist, only {nouns}, left behind by a killed command: undeploy deletes the rest",
        log=log_location(str(first.endpoint), region),
        **_fields_from_tags(first),
    )


def machine_of(resource: Resource) -> str:
    """Return the instance type from our tags."""
    return resource.tags.get("trainfare:machine", "unknown")


def _fields_from_tags(resource: Resource) -> dict[str, Any]:
    tags = resource.tags
    machines = tags.get("trainfare:machines", "1")
    over: WhenOver = "delete" if tags.get("trainfare:when-over") == "delete" else "warn"
    return {
        "identity": tags.get("trainfare:identity", ""),
        "run_id": tags.get("trainfare:run"),
        "model_id": tags.get("trainfare:model"),
        "machine": machine_of(resource),
        "machines": int(machines) if machines.isdigit() else 1,
        "expires": _time(tags.get("trainfare:expires")),
        "when_over": over,
    }


def _dollars(text: str | None) -> float:
    try:
        return max(0.0, float(text or 0.0))
    except ValueError:
        return 0.0


def _time(text: str | None) -> datetime | None:
    try:
        time = datetime.fromisoformat(text) if text else None
    except ValueError:
        # A user edited the tag.
        return None
    return time if time is None or time.tzinfo else None
