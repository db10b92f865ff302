"""Where an endpoint is: what was deployed from here is noted, so that a name alone finds it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from experiments.deployments.arguments import aws_fields, service_named
from models.endpoints.protocol import Endpoints, EndpointState, Say
from training.contract.errors import AccessError, InputError
from training.state.home import home


@dataclass(frozen=True, kw_only=True)
class Note:
    """What is remembered here of an endpoint that was deployed from here."""

    service: str
    name: str
    expires: float | None = None
    """When its lifetime is over, seconds since the epoch; None: never."""
    when_over: str = "warn"
    aws: Mapping[str, Any] = field(default_factory=dict)
    """The fields `aws.*` under which it was deployed, the region always among them."""
    account: str = ""
    """Of AWS, where it is there."""

    @property
    def path(self) -> Path:
        """Where it is kept."""
        where = [self.account, self.region] if self.service == "sagemaker" else []
        return _folder() / self.service / f"{'.'.join([self.name, *where])}.json"

    @property
    def region(self) -> str:
        """Of AWS, where it is there."""
        return str(self.aws.get("region") or "")

    def of(self, state: EndpointState) -> Note:
        """Return the note with the lifetime that the endpoint itself has."""
        expires = None if state.expires is None else state.expires.timestamp()
        return replace(self, expires=expires, when_over=state.when_over)

    def is_over(self) -> bool:
        """Return whether the lifetime has ended."""
        return self.expires is not None and self.expires <= datetime.now(UTC).timestamp()

    def keep(self) -> None:
        """Write it, in one step."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.path.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(self)))
        fresh.replace(self.path)

    def forget(self) -> None:
        """Delete it."""
        self.path.unlink(missing_ok=True)


def notes() -> list[Note]:
    """Return all notes; one that cannot be read is left out."""
    found = []
    for path in sorted(_folder().glob("*/*.json")):
        with suppress(OSError, ValueError, TypeError):
            found.append(Note(**json.loads(path.read_bytes())))
    return found


def note_of(name: str, service: str | None, region: str | None = None) -> Note:
    """Return where the endpoint `name` is: as noted here, else at the service that is named, or at this machine.

    Raises `InputError` where there are several of this name.
    """
    known = [note for note in notes() if note.name == name and service in (None, note.service)]
    found = [note for note in known if region in (None, note.region)]
    if len(found) > 1:
        places = ", ".join(" ".join(filter(None, (note.service, note.account, note.region))) for note in found)
        raise InputError(f"endpoint '{name}' is at several places ({places}): say which with service= or aws.region=.")
    return found[0] if found else Note(service=service or "local", name=name)


def opened(note: Note, say: Say) -> tuple[Note, Endpoints]:
    """Return the endpoints of a note's service, and the note with the account and region that these are of.

    Raises `AccessError` where the credentials are of another account than the note.
    """
    if note.service == "local":
        from models.endpoints.local.endpoints import LocalEndpoints

        return note, LocalEndpoints(home())
    from models.endpoints.sagemaker.endpoints import open_endpoints

    service = open_endpoints(note.aws, say)
    if note.account not in ("", service.account):
        what = f"endpoint {note.name} is" if note.name else "endpoints were deployed from here that are"
        raise AccessError(
            f"{what} of AWS account {note.account}, and these credentials are of account {service.account}."
        )
    return replace(note, account=service.account, aws={**note.aws, "region": service.region}), service


def found(name: str, given: Mapping[str, str], say: Say) -> tuple[Note, Endpoints]:
    """Return the note of the endpoint that a command names, and its service, with the command's own fields `aws.*`."""
    aws = aws_fields(given)
    service = service_named(given) or ("sagemaker" if aws else None)
    note = note_of(name, service, aws.get("region"))
    return opened(replace(note, aws={**note.aws, **aws}), say)


def _folder() -> Path:
    # The full stop keeps it apart from endpoints' names.
    return home() / "endpoints" / ".known"
