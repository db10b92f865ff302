"""Records of the endpoints that were deployed from this machine. With them, a name is enough to find an endpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from experiments.deployments.arguments import read_aws, read_service
from models.endpoints.protocol import Echo, Endpoints, EndpointState
from training.contract.errors import AccessError, InputError
from training.state.home import home


@dataclass(frozen=True, kw_only=True)
class EndpointRecord:
    """Record of one endpoint, stored in one file."""

    service: str
    name: str
    expires: float | None = None
    """End of its lifetime, seconds since the epoch; None if unlimited."""
    when_over: str = "warn"
    aws: Mapping[str, Any] = field(default_factory=dict)
    """Fields `aws.*` of its deployment, including the region."""
    account: str = ""
    """AWS account; empty for a local endpoint."""

    @property
    def path(self) -> Path:
        """Path of the record's file."""
        context = [self.account, self.region] if self.service == "sagemaker" else []
        return _folder() / self.service / f"{'.'.join([self.name, *context])}.json"

    @property
    def region(self) -> str:
        """AWS region; empty for a local endpoint."""
        return str(self.aws.get("region") or "")

    def updated(self, state: EndpointState) -> EndpointRecord:
        """Return the record with the lifetime from the endpoint's state."""
        expires = None if state.expires is None else state.expires.timestamp()
        return replace(self, expires=expires, when_over=state.when_over)

    def is_over(self) -> bool:
        """Return True if the lifetime has ended."""
        return self.expires is not None and self.expires <= datetime.now(UTC).timestamp()

    def save(self) -> None:
        """Write the file atomically."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.path.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(self)))
        fresh.replace(self.path)

    def remove(self) -> None:
        """Delete the file."""
        self.path.unlink(missing_ok=True)


def read_records() -> list[EndpointRecord]:
    """Return all records that can be read."""
    readable = []
    for path in sorted(_folder().glob("*/*.json")):
        with suppress(OSError, ValueError, TypeError):
            readable.append(EndpointRecord(**json.loads(path.read_bytes())))
    return readable


def find_record(name: str, service: str | None, region: str | None = None) -> EndpointRecord:
    """Return the record of the endpoint `name`, or a new record for the service, by default `local`.

    Raises `InputError` if several records match.
    """
    known = [record for record in read_records() if record.name == name and service in (None, record.service)]
    matches = [record for record in known if region in (None, record.region)]
    if len(matches) > 1:
        listed = ", ".join(
            " ".join(filter(None, (record.service, record.account, record.region))) for record in matches
        )
        raise InputError(f"several endpoints are named '{name}' ({listed}): add --service or --aws.region.")
    return matches[0] if matches else EndpointRecord(service=service or "local", name=name)


def open_record(record: EndpointRecord, echo: Echo, *, is_read_only: bool = False) -> tuple[EndpointRecord, Endpoints]:
    """Open the service of a record; return the record with the service's account and region, and the service.

    A read-only service can plan a deployment, and changes nothing. Raises `AccessError` if the credentials belong to a
    different account than the record.
    """
    if record.service == "local":
        from models.endpoints.local.endpoints import LocalEndpoints

        return record, LocalEndpoints(home())
    from models.endpoints.sagemaker.endpoints import open_endpoints

    service = open_endpoints(record.aws, echo, is_read_only=is_read_only)
    if record.account not in ("", service.account):
        subject = f"endpoint {record.name} belongs" if record.name else "endpoints that were deployed from here belong"
        raise AccessError(
            f"{subject} to AWS account {record.account}, but the credentials belong to account {service.account}."
        )
    return replace(record, account=service.account, aws={**record.aws, "region": service.region}), service


def find_endpoint(name: str, fields: Mapping[str, str], echo: Echo) -> tuple[EndpointRecord, Endpoints]:
    """Return the record of the endpoint `name`, with the command's own fields `aws.*`, and its service."""
    aws = read_aws(fields)
    service = read_service(fields) or ("sagemaker" if aws else None)
    record = find_record(name, service, aws.get("region"))
    return open_record(replace(record, aws={**record.aws, **aws}), echo)


def _folder() -> Path:
    # No endpoint's name starts with a full stop, so this folder cannot be that of an endpoint.
    return home() / "endpoints" / ".known"
