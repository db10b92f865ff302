"""Record of the endpoints that were deployed from this machine, so that a name is enough to find one."""

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
class Note:
    """Record of one endpoint, in a file of its own."""

    service: str
    name: str
    expires: float | None = None
    """End of its lifetime, seconds since the epoch; None if unlimited."""
    when_over: str = "warn"
    aws: Mapping[str, Any] = field(default_factory=dict)
    """Fields `aws.*` of its deployment, always with the region."""
    account: str = ""
    """AWS account; empty for a local endpoint."""

    @property
    def path(self) -> Path:
        """Path of the file."""
        context = [self.account, self.region] if self.service == "sagemaker" else []
        return _folder() / self.service / f"{'.'.join([self.name, *context])}.json"

    @property
    def region(self) -> str:
        """AWS region; empty for a local endpoint."""
        return str(self.aws.get("region") or "")

    def of(self, state: EndpointState) -> Note:
        """Return the note with the lifetime of the endpoint's own state."""
        expires = None if state.expires is None else state.expires.timestamp()
        return replace(self, expires=expires, when_over=state.when_over)

    def is_over(self) -> bool:
        """Return True if the lifetime has ended."""
        return self.expires is not None and self.expires <= datetime.now(UTC).timestamp()

    def keep(self) -> None:
        """Write the file atomically."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.path.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(self)))
        fresh.replace(self.path)

    def forget(self) -> None:
        """Delete the file."""
        self.path.unlink(missing_ok=True)


def notes() -> list[Note]:
    """Return all notes, without those that cannot be read."""
    readable = []
    for path in sorted(_folder().glob("*/*.json")):
        with suppress(OSError, ValueError, TypeError):
            readable.append(Note(**json.loads(path.read_bytes())))
    return readable


def note_of(name: str, service: str | None, region: str | None = None) -> Note:
    """Return the note of the endpoint `name`, or a new one for the service, by default `local`.

    Raises `InputError` if several notes match.
    """
    known = [note for note in notes() if note.name == name and service in (None, note.service)]
    matches = [note for note in known if region in (None, note.region)]
    if len(matches) > 1:
        listed = ", ".join(" ".join(filter(None, (note.service, note.account, note.region))) for note in matches)
        raise InputError(f"endpoint '{name}' exists more than once ({listed}): choose with service= or aws.region=.")
    return matches[0] if matches else Note(service=service or "local", name=name)


def open_note(note: Note, echo: Echo) -> tuple[Note, Endpoints]:
    """Open the service of a note; return the note with the service's account and region, and the service.

    Raises `AccessError` if the credentials belong to another account than the note.
    """
    if note.service == "local":
        from models.endpoints.local.endpoints import LocalEndpoints

        return note, LocalEndpoints(home())
    from models.endpoints.sagemaker.endpoints import open_endpoints

    service = open_endpoints(note.aws, echo)
    if note.account not in ("", service.account):
        subject = f"endpoint {note.name} belongs" if note.name else "endpoints that were deployed from here belong"
        raise AccessError(
            f"{subject} to AWS account {note.account}, but the credentials belong to account {service.account}."
        )
    return replace(note, account=service.account, aws={**note.aws, "region": service.region}), service


def find(name: str, fields: Mapping[str, str], echo: Echo) -> tuple[Note, Endpoints]:
    """Return the note of the endpoint `name`, with the command's own fields `aws.*`, and its service."""
    aws = read_aws(fields)
    service = read_service(fields) or ("sagemaker" if aws else None)
    note = note_of(name, service, aws.get("region"))
    return open_note(replace(note, aws={**note.aws, **aws}), echo)


def _folder() -> Path:
    # No endpoint has a name that starts with a full stop.
    return home() / "endpoints" / ".known"
