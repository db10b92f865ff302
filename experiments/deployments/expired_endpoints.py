"""Endpoints whose lifetime is over: the next command of any kind tells of them, or deletes them."""

from __future__ import annotations

from experiments.deployments.known_endpoints import Note, notes, opened
from experiments.running.output import remark
from training.contract.errors import EndpointNotFound, TrainfareError


def look_after() -> None:
    """Warn of each endpoint deployed from here whose lifetime is over, or delete it, as it says itself.

    Reads a few small files where nothing is over. Nothing that goes wrong here stops the command.
    """
    for note in notes():
        if note.is_over():
            try:
                _end(note)
            except TrainfareError as error:
                remark(f"Endpoint {note.name} ({note.service}) is past its lifetime, and was not looked after: {error}")


def _end(noted: Note) -> None:
    note, service = opened(noted, remark)
    try:
        state = service.describe(note.name)
        if state.expires is None or not state.is_over():
            # Another command, from here or elsewhere, has given it more time, or put another in its place.
            note.of(state).keep()
            return
        since = f"its lifetime was over at {state.expires:%Y-%m-%d %H:%M} UTC"
        if state.when_over == "delete":
            service.undeploy(note.name, lambda _: None)
            remark(f"Endpoint {note.name} ({note.service}) was deleted: {since}.")
            note.forget()
        else:
            remark(
                f"Endpoint {note.name} ({note.service}) is past its lifetime: {since}; "
                f"`python -m experiments undeploy --endpoint {note.name}` deletes it."
            )
    except EndpointNotFound:
        note.forget()
