"""Which service an endpoint is at: what was deployed from here is noted, so that a name alone finds it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from experiments.serving.given import aws_fields, service_named
from serving.protocol import Endpoints, Say
from training.errors import InputError
from training.home import home


@dataclass(frozen=True, kw_only=True)
class Note:
    """What is remembered here of an endpoint that was deployed from here."""

    service: str
    name: str
    expires: float | None = None
    """When its lifetime is over, seconds since the epoch; None: never."""
    when_over: str = "warn"
    aws: Mapping[str, Any] = field(default_factory=dict)
    """The fields `aws.*` under which it was deployed."""

    @property
    def path(self) -> Path:
        """Where it is kept."""
        return _folder() / self.service / f"{self.name}.json"

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


def note_of(name: str, service: str | None) -> Note:
    """Return where the endpoint `name` is: as noted here, else at the service that is named, or at this machine.

    Raises `InputError` where both services have one.
    """
    found = [note for note in notes() if note.name == name and service in (None, note.service)]
    if len(found) > 1:
        raise InputError(f"endpoint '{name}' is both local and at SageMaker: say which with service=.")
    return found[0] if found else Note(service=service or "local", name=name)


def opened(note: Note, say: Say) -> Endpoints:
    """Return the endpoints of the service that a note tells of."""
    if note.service == "local":
        from serving.local.endpoints import LocalEndpoints

        return LocalEndpoints(home())
    from serving.aws.endpoints import open_endpoints

    return open_endpoints(note.aws, say)


def found(name: str, given: Mapping[str, str], say: Say) -> tuple[Note, Endpoints]:
    """Return the note of the endpoint that a command names, and its service, with the command's own fields `aws.*`."""
    note = note_of(name, service_named(given))
    more = aws_fields(given)
    if more:
        note = Note(**{**asdict(note), "aws": {**note.aws, **more}})
    return note, opened(note, say)


def _folder() -> Path:
    # The full stop keeps it apart from endpoints' names.
    return home() / "endpoints" / ".known"
