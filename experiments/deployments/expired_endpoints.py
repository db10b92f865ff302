"""Endpoints whose lifetime has ended: the next command of any kind reports or deletes them."""

from __future__ import annotations

from experiments.deployments.known_endpoints import Note, notes, open_note
from experiments.running.output import print_error
from training.contract.errors import EndpointNotFound, TrainfareError


def end_lifetimes() -> None:
    """Report or delete each endpoint deployed from here whose lifetime has ended, as its `when_over` says.

    Reads only a few small files if no lifetime has ended. Errors are printed and do not stop the command.
    """
    for note in notes():
        if note.is_over():
            try:
                _end(note)
            except TrainfareError as error:
                print_error(f"Endpoint {note.name} ({note.service}) is past its lifetime; checking it failed: {error}")


def _end(noted: Note) -> None:
    note, service = open_note(noted, print_error)
    try:
        state = service.describe(note.name)
        if state.expires is None or not state.is_over():
            # Another command has extended its lifetime or replaced it.
            note.of(state).keep()
            return
        since = f"its lifetime ended at {state.expires:%Y-%m-%d %H:%M} UTC"
        if state.when_over == "delete":
            service.undeploy(note.name, lambda _: None)
            print_error(f"Endpoint {note.name} ({note.service}) was deleted: {since}.")
            note.forget()
        else:
            print_error(
                f"Endpoint {note.name} ({note.service}) is past its lifetime: {since}; "
                f"`python -m experiments undeploy --endpoint {note.name}` deletes it."
            )
    except EndpointNotFound:
        note.forget()
