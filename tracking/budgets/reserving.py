"""Reserve a part of a group's budget for a job before it is submitted. Pure: the caller does the reads and the writes.

A job that has ended counts with its cost. Every other one that may have started counts with its worst case.

A launcher writes its reservation, then reads all of them, and submits the job only if their sum is within the budget.
Of all reservations that are granted, take the one whose launcher read last: that launcher saw all the others, because
each was written before its own launcher read. So the sum that it checked is the sum of all, and it is within the
budget, however many launchers run and wherever they are killed. A granted reservation is never withdrawn. It ends when
the job's cost is recorded.

Launchers with the same state folder have one reservation for each job, so they must take turns, by a lock. Launchers
elsewhere have their own: MLflow has no lock, and of two writes to one tag the later would win. The job counts with the
larger one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from tracking.groups.planned_job import PlannedJob
from training.contract.failures import Failure
from training.contract.job_spec import JobSpec
from training.contract.price import InstanceSeconds
from training.contract.service import Description
from training.services.budget import (
    NOTHING,
    SHORTEST_LIMIT_SECONDS,
    Amount,
    Budget,
    fitting_limit,
    total,
    warm_pool,
    worst_case,
)

SPARE = 1.2
"""A job may take so much longer than the longest earlier one of its arm."""
WITHDRAWN = "withdrawn"
"""Text of the tag of a reservation that no longer counts."""
CUT = "Budget"
"""Failure class of a job that reached a time limit which its budget had lowered."""


@dataclass(frozen=True, kw_only=True)
class Reservation:
    """Part of a budget that is set aside for one job, by one launcher."""

    limit_seconds: int
    """Time limit with which the job may be submitted."""
    worst: Amount
    """Most that the job can cost, with its warm pool."""
    pool: Amount
    """Most that its warm pool can cost."""
    is_granted: bool = False
    """True once the launcher has checked the sum of all reservations. Only then is the job submitted."""

    def as_text(self) -> str:
        """Return the reservation as the text of a tag."""
        fields: dict[str, object] = {"limit_seconds": self.limit_seconds, "granted": self.is_granted}
        fields |= {"seconds": self.worst.seconds, "usd": self.worst.usd}
        return json.dumps({**fields, "pool_seconds": self.pool.seconds, "pool_usd": self.pool.usd})


def reservation(planned: PlannedJob, limit_seconds: int | None = None) -> Reservation:
    """Return the reservation of a job with this time limit, or with its own."""
    limit = planned.spec.max_run_seconds if limit_seconds is None else limit_seconds
    spec, price = planned.spec.model_copy(update={"max_run_seconds": limit}), planned.dearest_price
    return Reservation(limit_seconds=limit, worst=worst_case(spec, price), pool=warm_pool(spec, price))


def read_reservation(text: str) -> Reservation | None:
    """Return the reservation in a tag's text; None if it is withdrawn."""
    if text == WITHDRAWN:
        return None
    fields = json.loads(text)
    return Reservation(
        limit_seconds=int(fields["limit_seconds"]),
        worst=Amount(seconds=InstanceSeconds(fields["seconds"]), usd=fields["usd"]),
        pool=Amount(seconds=InstanceSeconds(fields["pool_seconds"]), usd=fields["pool_usd"]),
        is_granted=bool(fields["granted"]),
    )


@dataclass(frozen=True, kw_only=True)
class JobRecord:
    """One job of a group, as its run records it."""

    arm: str = ""
    reserved: Mapping[str, Reservation] = field(default_factory=dict)
    """Reservation of each launcher's state folder, by the folder's id."""
    unlimited: Amount | None = None
    """Worst case of a job that a launcher without a budget opened."""
    is_submitted: bool = False
    """True if the job was certainly submitted."""
    has_ended: bool = False
    """True if its outcome is recorded."""
    was_billed: bool = True
    """False for an ended job that never ran."""
    cost: Amount | None = None
    """Recorded cost without the warm pool, which has no dollars without a price. None: not recorded."""
    pool_cost: Amount | None = None
    """Recorded cost of its warm pool. None: the pool may be open."""
    billable_seconds: float | None = None
    """Billed seconds of one instance."""
    failure_class: str | None = None

    @property
    def granted(self) -> Reservation | None:
        """The longest reservation with which the job may have been submitted, if there is one."""
        granted = [each for each in self.reserved.values() if each.is_granted]
        return max(granted, key=lambda each: each.limit_seconds, default=None)

    @property
    def worst(self) -> Amount | None:
        """Most that the job can cost: the most of all reservations, because launchers may have made several."""
        worst = self.unlimited
        for each in self.reserved.values():
            worst = each.worst if worst is None else worst.at_least(each.worst)
        return worst

    def with_reservation(self, launcher: str, reserved: Reservation | None) -> JobRecord:
        """Return the record after a launcher has written or withdrawn its reservation."""
        others = {name: each for name, each in self.reserved.items() if name != launcher}
        return replace(self, reserved=others if reserved is None else {**others, launcher: reserved})


Records = Mapping[str, JobRecord]
"""Records of a group's jobs by name."""


def charge(record: JobRecord, unknown: Amount) -> Amount:
    """Return the share of the budget that a job takes. `unknown` is the worst case of a job that recorded none."""
    if not record.has_ended:
        return record.worst or (unknown if record.is_submitted else NOTHING)
    if not record.was_billed:
        return NOTHING
    worst = record.worst or unknown
    if record.cost is None:
        return worst
    usd = worst.usd if record.cost.usd is None else record.cost.usd
    return Amount(seconds=record.cost.seconds, usd=usd) + _pool_charge(record)


def _pool_charge(record: JobRecord) -> Amount:
    if record.pool_cost is not None:
        return record.pool_cost
    return max((each.pool for each in record.reserved.values()), key=lambda each: each.seconds, default=NOTHING)


def committed(records: Records, unknown: Amount, *, without: str = "") -> Amount:
    """Return the share of the budget that all jobs take, except the one named `without`."""
    return total(charge(each, unknown) for name, each in records.items() if name != without)


def recorded_cost(records: Records) -> Amount:
    """Return the recorded cost of the ended jobs, with their warm pools. Dollars count where they are known."""
    costs = [cost for each in records.values() for cost in (each.cost, each.pool_cost) if cost is not None]
    known = [cost.usd for cost in costs if cost.usd is not None]
    seconds = InstanceSeconds(sum(cost.seconds for cost in costs))
    return Amount(seconds=seconds, usd=sum(known) if known or not costs else None)


def shortest_useful_seconds(records: Records, arm: str, least_seconds: float | None) -> float:
    """Return the shortest time limit with which a job of this arm probably completes.

    That is the longest time of an ended job of the arm, and a fifth more. A job that reached its limit needs more than
    that. If no job of the arm has ended, all arms count. If none has, it is `least_seconds`, or a minute.
    """
    ended = [(each.arm, seconds) for each in records.values() if (seconds := _needed_seconds(each)) is not None]
    needed = [seconds for of, seconds in ended if of == arm] or [seconds for _, seconds in ended]
    if not needed:
        return SHORTEST_LIMIT_SECONDS if least_seconds is None else least_seconds
    return max(math.ceil(SPARE * max(needed)), least_seconds or 0.0)


def _needed_seconds(record: JobRecord) -> float | None:
    if not record.has_ended:
        return None
    if record.failure_class is None:
        return record.billable_seconds
    return record.granted.limit_seconds if record.failure_class == CUT and record.granted else None


@dataclass(frozen=True, kw_only=True)
class Request:
    """A job that a launcher wants to start."""

    planned: PlannedJob
    launcher: str
    """Id of the launcher's state folder."""
    budget: Budget
    least_seconds: float | None = None
    """Shortest useful time limit of a job about which nothing is known."""
    jobs: int = 1
    """Jobs, with this one, that could start now. They share what is left."""

    @property
    def name(self) -> str:
        return self.planned.spec.name


@dataclass(frozen=True, kw_only=True)
class NoRoom:
    """The job does not fit into what is left of the budget."""

    holding: frozenset[str] = frozenset()
    """Names of the jobs that hold a part of the budget and have not ended. A launcher starts or follows them first."""
    is_contended: bool = False
    """True if another launcher reserved at the same moment."""

    @property
    def is_final(self) -> bool:
        """True if no other job may end and leave more."""
        return not self.holding and not self.is_contended


@dataclass(frozen=True, kw_only=True)
class Write:
    """Step: write this launcher's reservation to the job's run, or withdraw it."""

    reserved: Reservation | None


Step = Write | Literal["read"]
"""Next step of the caller: write, or read the records of all jobs of the group."""


def reserve(request: Request) -> Generator[Step, Records | None, Reservation | NoRoom]:
    """Return the granted reservation of a job, or that there is no room. Yields the steps to do meanwhile."""
    records = yield "read"
    assert records is not None
    own = records.get(request.name, JobRecord())
    answer = room(request, records)
    if isinstance(answer, Reservation) and answer.is_granted:
        return answer
    if isinstance(answer, NoRoom):
        if request.launcher in own.reserved:
            yield Write(reserved=None)  # left by a launcher that was killed before it submitted the job
        return answer
    yield Write(reserved=answer)
    records = yield "read"
    assert records is not None
    unknown = reservation(request.planned).worst
    if not request.budget.allows(committed(records, unknown)):
        yield Write(reserved=None)
        return NoRoom(is_contended=True)
    granted = replace(answer, is_granted=True)
    yield Write(reserved=granted)
    return granted


def room(request: Request, records: Records) -> Reservation | NoRoom:
    """Return a reservation with which the job fits into the budget, or that there is no room. Reserves nothing.

    The reservation is granted if the job has one, or has been submitted.
    """
    planned, own = request.planned, records.get(request.name, JobRecord())
    if own.granted or own.is_submitted or own.has_ended:
        return own.granted or replace(reservation(planned), is_granted=True)
    unknown = reservation(planned).worst
    free = request.budget.left(committed(records, unknown, without=request.name))
    shortest = shortest_useful_seconds(records, planned.arm, request.least_seconds)
    price = planned.dearest_price
    limit = fitting_limit(planned.spec, price, free, shortest_seconds=shortest, jobs=request.jobs)
    if limit is None:
        return no_room(records, request.name)
    return reservation(planned, limit)


def no_room(records: Records, name: str) -> NoRoom:
    """Return that the job `name` has no room. It may get some when another job ends for less than it could cost."""
    others = {other: each for other, each in records.items() if other != name and not each.has_ended}
    return NoRoom(holding=frozenset(other for other, each in others.items() if each.worst or each.is_submitted))


def with_limit(spec: JobSpec, limit_seconds: int) -> JobSpec:
    """Return the spec with a lower time limit. On spot capacity, the longest wait stays as it was."""
    wait_seconds = spec.longest_wait_seconds or spec.max_wait_seconds
    return spec.model_copy(update={"max_run_seconds": limit_seconds, "max_wait_seconds": wait_seconds})


def budget_failure(failure: Failure, description: Description, planned: PlannedJob) -> Failure:
    """Return the failure of a job. One that reached a limit which its budget had lowered has a class of its own."""
    limit = description.get("StoppingCondition", {}).get("MaxRuntimeInSeconds")
    if failure.failure_class != "TimeLimit" or limit is None or limit >= planned.spec.max_run_seconds:
        return failure
    limits = f"to which the budget had lowered its limit of {planned.spec.max_run_seconds} seconds"
    return replace(failure, failure_class=CUT, message=f"{failure.message}, {limits}")
