"""Delete an endpoint, or all endpoints that were deployed with this tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from experiments.deployments import arguments as read
from experiments.deployments.interruption import interruptible
from experiments.deployments.known_endpoints import Note, find, notes, open_note
from experiments.running.output import print_line
from training.contract.errors import EndpointNotFound, InputError, TrainfareError


def undeploy(fields: Mapping[str, str]) -> int:
    """Delete the endpoint `endpoint`, or with `all=true` those of this machine and of every SageMaker region in use."""
    read.check_not_empty(fields)
    is_all = read.read_flag(fields, "all")
    if is_all == ("endpoint" in fields):
        raise InputError("undeploy needs either endpoint=NAME or all=true.")
    with interruptible():
        if is_all:
            return _delete_all(locations(fields))
        return _delete(read.read_name("endpoint", fields["endpoint"]), fields)


def locations(fields: Mapping[str, str]) -> list[Note]:
    """Return the services that may have endpoints of ours, with each account and region of SageMaker once."""
    service, aws = read.read_service(fields), read.read_aws(fields)
    if service is None:
        service = "sagemaker" if aws else None
    noted: dict[tuple[str, str], Note] = {}
    for note in (each for each in notes() if each.service == "sagemaker"):
        key = (note.account, note.region)
        merged = {**noted[key].aws, **note.aws} if key in noted else note.aws
        noted[key] = Note(service="sagemaker", name="", account=note.account, aws=merged)
    known = [Note(service="local", name=""), *noted.values()]
    if service == "sagemaker" and (aws or len(known) == 1):
        known = [Note(service="sagemaker", name="", aws=aws)]
    return [note for note in known if service in (None, note.service)]


def _delete(name: str, fields: Mapping[str, str]) -> int:
    note, service = find(name, fields, print_line)
    try:
        service.undeploy(note.name, print_line)
    except EndpointNotFound:
        note.forget()
        raise
    note.forget()
    return 0


def _delete_all(notes: list[Note]) -> int:
    """Delete every endpoint, also after one could not be deleted; return the exit code."""
    failed = 0
    deleted = 0
    for location in notes:
        try:
            note, service = open_note(location, print_line)
            names = [state.name for state in service.endpoints()]
        except TrainfareError as error:
            failed += 1
            print_line(f"error: {error}")
            continue
        for name in names:
            try:
                service.undeploy(name, print_line)
                replace(note, name=name).forget()
                deleted += 1
            except TrainfareError as error:
                failed += 1
                print_line(f"error: {error}")
    print_line(f"Deleted: {deleted}" + (f", not deleted: {failed}" if failed else ""))
    return 1 if failed else 0
