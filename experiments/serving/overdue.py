"""Endpoints whose lifetime is over: the next command of any kind tells of them, or deletes them."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

from experiments.serving.services import Note, notes, opened
from training.errors import EndpointNotFound, TrainfareError


def look_after() -> None:
    """Warn of each endpoint deployed from here whose lifetime is over, or delete it, as its deploy asked.

    Reads a few small files where nothing is over. Nothing that goes wrong here stops the command.
    """
    for note in notes():
        if note.is_over():
            try:
                _end(note)
            except TrainfareError as error:
                _say(f"Endpoint {note.name} ({note.service}) is past its lifetime, and was not looked after: {error}")


def _end(note: Note) -> None:
    service = opened(note, _say)
    since = datetime.fromtimestamp(note.expires or 0.0, UTC)
    try:
        if note.when_over == "delete":
            service.undeploy(note.name, lambda _: None)
            _say(f"Endpoint {note.name} ({note.service}) was deleted: its lifetime was over at {since:%H:%M} UTC.")
            note.forget()
        else:
            service.describe(note.name)
            _say(
                f"Endpoint {note.name} ({note.service}) is past its lifetime, which was over at "
                f"{since:%Y-%m-%d %H:%M} UTC: `python -m experiments undeploy --endpoint {note.name}` deletes it."
            )
    except EndpointNotFound:
        note.forget()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
