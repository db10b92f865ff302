"""Endpoints whose lifetime has ended: the next command of any kind reports or deletes them."""

from __future__ import annotations

from experiments.deployments.known_endpoints import EndpointRecord, open_record, read_records
from experiments.running.output import print_error
from training.contract.errors import EndpointNotFound, TrainfareError


def end_lifetimes() -> None:
    """Report or delete, depending on `when_over`, each endpoint of this machine's records whose lifetime has ended.

    Reads only a few small files if no lifetime has ended. Errors are printed and do not stop the command.
    """
    for record in read_records():
        if record.is_over():
            try:
                _end(record)
            except TrainfareError as error:
                print_error(
                    f"Endpoint {record.name} ({record.service}) is past its lifetime; checking it failed: {error}"
                )


def _end(recorded: EndpointRecord) -> None:
    record, service = open_record(recorded, print_error)
    try:
        state = service.describe(record.name)
        if state.expires is None or not state.is_over():
            # Another command has extended its lifetime or replaced it.
            record.updated(state).save()
            return
        since = f"its lifetime ended at {state.expires:%Y-%m-%d %H:%M} UTC"
        if state.when_over == "delete":
            service.undeploy(record.name, lambda _: None)
            print_error(f"Endpoint {record.name} ({record.service}) was deleted: {since}.")
            record.remove()
        else:
            print_error(
                f"Endpoint {record.name} ({record.service}) is past its lifetime: {since}; "
                f"`trainfare undeploy --endpoint {record.name}` deletes it."
            )
    except EndpointNotFound:
        record.remove()
