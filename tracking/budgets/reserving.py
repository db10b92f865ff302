"""Reserve a part of the budget for a job before it is submitted. Pure: the caller does the reads and the writes.

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

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Literal

from tracking.budgets.records import JobRecord, Records, Reservation, committed, reservation, shortest_useful_seconds
from tracking.groups.planned_job import PlannedJob
from training.contract.budget import Budget, fitting_limit


@dataclass(frozen=True, kw_only=True)
class Write:
    """Step: write this launcher's reservation to the job's run, or withdraw it."""

    reserved: Reservation | None


Step = Write | Literal["read"]
"""Next step of the caller: write, or read the records of all jobs of the group."""


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
        """Name of the job."""
        return self.planned.spec.name


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
