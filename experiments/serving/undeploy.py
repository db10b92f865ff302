"""The verb `undeploy`: delete an endpoint, or all that were made by this tool."""

from __future__ import annotations

from collections.abc import Mapping

from experiments.serving import given as read
from experiments.serving.interrupt import interruptible
from experiments.serving.services import Note, found, notes, opened
from training.errors import InputError, TrainfareError

FIELDS = ("endpoint", "all", "service")


def undeploy(given: Mapping[str, str]) -> int:
    """Delete the endpoint `endpoint`, or with `all=true` those of this machine and of SageMaker where it was used."""
    read.known_only("undeploy", given, FIELDS)
    every = read.truth(given, "all")
    if every == ("endpoint" in given):
        raise InputError("undeploy needs endpoint=NAME, or else all=true.")
    with interruptible():
        if not every:
            note, service = found(read.name_checked("endpoint", given["endpoint"]), given, _say)
            service.undeploy(note.name, _say)
            note.forget()
            return 0
        return _all(places(given))


def places(given: Mapping[str, str]) -> list[Note]:
    """Return where endpoints of ours may be: each service, and each account and region of SageMaker, once."""
    service, aws = read.service_named(given), read.aws_fields(given)
    if service is None:
        service = "sagemaker" if aws else None
    known = [Note(service="local", name="")]
    noted = {tuple(sorted(map(repr, note.aws.items()))): note for note in notes() if note.service == "sagemaker"}
    known += [Note(service="sagemaker", name="", aws=note.aws) for note in noted.values()]
    if service == "sagemaker" and (aws or len(known) == 1):
        known = [Note(service="sagemaker", name="", aws=aws)]
    return [note for note in known if service in (None, note.service)]


def _all(where: list[Note]) -> int:
    """Delete everything; one that cannot be deleted keeps none of the others."""
    failed = 0
    gone = 0
    for place in where:
        service = opened(place, _say)
        for state in service.endpoints():
            try:
                service.undeploy(state.name, _say)
                Note(service=place.service, name=state.name).forget()
                gone += 1
            except TrainfareError as error:
                failed += 1
                _say(f"error: {error}")
    _say(f"Deleted: {gone}" + (f", not deleted: {failed}" if failed else ""))
    return 1 if failed else 0


def _say(text: str) -> None:
    print(text, flush=True)
