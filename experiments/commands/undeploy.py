"""The verb `undeploy`: delete an endpoint, or all that were made by this tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from experiments.deployments import arguments as read
from experiments.deployments.interruption import interruptible
from experiments.deployments.known_endpoints import Note, found, notes, opened
from experiments.running.output import say
from training.contract.errors import EndpointNotFound, InputError, TrainfareError

FIELDS = ("endpoint", "all", "service")


def undeploy(given: Mapping[str, str]) -> int:
    """Delete the endpoint `endpoint`, or with `all=true` those of this machine and of SageMaker where it was used."""
    read.known_only("undeploy", given, FIELDS)
    every = read.truth(given, "all")
    if every == ("endpoint" in given):
        raise InputError("undeploy needs endpoint=NAME, or else all=true.")
    with interruptible():
        return _all(places(given)) if every else _one(read.name_checked("endpoint", given["endpoint"]), given)


def places(given: Mapping[str, str]) -> list[Note]:
    """Return where endpoints of ours may be: each service, and each account and region of SageMaker, once."""
    service, aws = read.service_named(given), read.aws_fields(given)
    if service is None:
        service = "sagemaker" if aws else None
    noted: dict[tuple[str, str], Note] = {}
    for note in (each for each in notes() if each.service == "sagemaker"):
        key = (note.account, note.region)
        fields = {**noted[key].aws, **note.aws} if key in noted else note.aws
        noted[key] = Note(service="sagemaker", name="", account=note.account, aws=fields)
    known = [Note(service="local", name=""), *noted.values()]
    if service == "sagemaker" and (aws or len(known) == 1):
        known = [Note(service="sagemaker", name="", aws=aws)]
    return [note for note in known if service in (None, note.service)]


def _one(name: str, given: Mapping[str, str]) -> int:
    note, service = found(name, given, say)
    try:
        service.undeploy(note.name, say)
    except EndpointNotFound:
        note.forget()
        raise
    note.forget()
    return 0


def _all(where: list[Note]) -> int:
    """Delete everything; one that cannot be deleted keeps none of the others."""
    failed = 0
    gone = 0
    for place in where:
        try:
            note, service = opened(place, say)
            names = [state.name for state in service.endpoints()]
        except TrainfareError as error:
            failed += 1
            say(f"error: {error}")
            continue
        for name in names:
            try:
                service.undeploy(name, say)
                replace(note, name=name).forget()
                gone += 1
            except TrainfareError as error:
                failed += 1
                say(f"error: {error}")
    say(f"Deleted: {gone}" + (f", not deleted: {failed}" if failed else ""))
    return 1 if failed else 0
