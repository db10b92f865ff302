"""Delete an endpoint, or all endpoints that were deployed with this tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from experiments.deployments import arguments as read
from experiments.deployments.interruption import interruptible
from experiments.deployments.known_endpoints import EndpointRecord, find_endpoint, open_record, read_records
from experiments.running.output import print_line
from training.contract.errors import EndpointNotFound, InputError, TrainfareError


def undeploy(fields: Mapping[str, str]) -> int:
    """Delete the endpoint `--endpoint`, or with `--all true` all on this machine and in each recorded AWS region."""
    read.check_not_empty(fields)
    is_all = read.read_flag(fields, "all")
    if is_all == ("endpoint" in fields):
        raise InputError("undeploy needs either --endpoint NAME or --all true.")
    with interruptible():
        if is_all:
            return _delete_all(locations(fields))
        return _delete(read.read_name("endpoint", fields["endpoint"]), fields)


def locations(fields: Mapping[str, str]) -> list[EndpointRecord]:
    """Return the services that may have endpoints of this tool, with each SageMaker account and region once."""
    service, aws = read.read_service(fields), read.read_aws(fields)
    if service is None:
        service = "sagemaker" if aws else None
    recorded: dict[tuple[str, str], EndpointRecord] = {}
    for record in (each for each in read_records() if each.service == "sagemaker"):
        key = (record.account, record.region)
        merged = {**recorded[key].aws, **record.aws} if key in recorded else record.aws
        recorded[key] = EndpointRecord(service="sagemaker", name="", account=record.account, aws=merged)
    known = [EndpointRecord(service="local", name=""), *recorded.values()]
    if service == "sagemaker" and (aws or len(known) == 1):
        known = [EndpointRecord(service="sagemaker", name="", aws=aws)]
    return [record for record in known if service in (None, record.service)]


def _delete(name: str, fields: Mapping[str, str]) -> int:
    record, service = find_endpoint(name, fields, print_line)
    try:
        service.undeploy(record.name, print_line)
    except EndpointNotFound:
        record.remove()
        raise
    record.remove()
    return 0


def _delete_all(locations: list[EndpointRecord]) -> int:
    """Delete every endpoint, even if some cannot be deleted; return the exit code."""
    failed = 0
    deleted = 0
    for location in locations:
        try:
            record, service = open_record(location, print_line)
            names = [state.name for state in service.endpoints()]
        except TrainfareError as error:
            failed += 1
            print_line(f"error: {error}")
            continue
        for name in names:
            try:
                service.undeploy(name, print_line)
                replace(record, name=name).remove()
                deleted += 1
            except TrainfareError as error:
                failed += 1
                print_line(f"error: {error}")
    print_line(f"Deleted: {deleted}" + (f", not deleted: {failed}" if failed else ""))
    return 1 if failed else 0
