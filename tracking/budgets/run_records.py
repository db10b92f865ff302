"""Read the records of a group's jobs from their runs."""

from __future__ import annotations

from collections.abc import Iterator

from mlflow.entities import Run, ViewType

from tracking.budgets.records import JobRecord, Reservation, read_reservation
from tracking.groups.group import Group
from tracking.queries.duplicates import counted_run, has_ended
from tracking.server.store import Store
from training.contract.budget import Amount
from training.contract.price import InstanceSeconds

RESERVED = "platform.reserved."
"""Start of a tag with the reservation of one launcher's state folder; the folder's id follows."""
UNLIMITED = "platform.worst_case"
"""Tag with the worst case of a job that was started without a budget, in the form of a reservation."""
DESCRIBED = "platform.described"
"""Tag of a run whose job was submitted."""
_POOL_OPEN = ("InUse", "Available")


def read_records(store: Store, group: Group) -> dict[str, JobRecord]:
    """Return the records of all jobs of a group by name. Deleted runs count, because their jobs were billed."""
    by_job: dict[str, list[Run]] = {}
    for run in _runs(store, group):
        by_job.setdefault(run.data.tags.get("platform.job_name", ""), []).append(run)
    return {name: _record(runs) for name, runs in by_job.items()}


def _runs(store: Store, group: Group) -> Iterator[Run]:
    query = f"tags.\"platform.group\" = '{group.id}' and tags.\"platform.kind\" = 'job'"
    search, token = store.client.search_runs, None
    while True:
        page = store.call(search, [group.experiment_id], query, ViewType.ALL, page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def _record(runs: list[Run]) -> JobRecord:
    """Return the record of a job. It has one run, unless an earlier version opened more, or a user deleted one."""
    run = counted_run(runs)
    tags, failed = run.data.tags, run.info.status != "FINISHED"
    ended, cost = has_ended(run), _cost(run, "cost/billable_instance_seconds", "cost/usd")
    failure_class = tags.get("platform.failure_class", "Error") if ended and failed else None
    unlimited = read_reservation(tags[UNLIMITED]) if UNLIMITED in tags else None
    return JobRecord(
        arm=tags.get("platform.arm", ""),
        reserved=dict(_reservations(runs)),
        unlimited=unlimited.worst if unlimited else None,
        is_submitted=any(DESCRIBED in each.data.tags for each in runs),
        has_ended=ended,
        was_billed=cost is not None or not (ended and _never_ran(run, failure_class)),
        cost=cost,
        pool_cost=_pool_cost(run),
        billable_seconds=run.data.metrics.get("cost/billable_seconds"),
        failure_class=failure_class,
    )


def _reservations(runs: list[Run]) -> Iterator[tuple[str, Reservation]]:
    for run in runs:
        for tag, text in run.data.tags.items():
            if tag.startswith(RESERVED) and (reserved := read_reservation(text)):
                yield tag.removeprefix(RESERVED), reserved


def _never_ran(run: Run, failure_class: str | None) -> bool:
    """Return whether an ended job was refused, got no instance, or was stopped before it started.

    A vanished one may have run.
    """
    if failure_class == "Refused":
        return True
    return failure_class in {"Stopped", "Capacity"} and "platform.training_start_time" not in run.data.tags


def _cost(run: Run, seconds_name: str, usd_name: str) -> Amount | None:
    seconds = run.data.metrics.get(seconds_name)
    if seconds is None:
        return None
    return Amount(seconds=InstanceSeconds(seconds), usd=run.data.metrics.get(usd_name))


def _pool_cost(run: Run) -> Amount | None:
    recorded = _cost(run, "cost/warm_pool_instance_seconds", "cost/warm_pool_usd")
    return None if run.data.tags.get("platform.warm_pool") in _POOL_OPEN else recorded
