"""The budget of a group on the tracking server: reserve a part of it for a job, and log what is spent.

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

import functools
import math
import time
from collections.abc import Collection, Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from mlflow.entities import Metric, Run, ViewType
from pydantic import TypeAdapter

from state.home import home, home_id
from state.locks import held_lock
from tracking.groups.group import Group, search_runs
from tracking.groups.planned_job import PlannedJob
from tracking.queries.job_tables import counted_run, has_ended, tagged, tags_of
from tracking.recording.metrics import OPEN_POOL, WARM_POOL, record_warm_pool_costs
from tracking.recording.recorder import DESCRIBED, JobRun, open_run
from tracking.server.store import Store
from training.contract.errors import BudgetFull, JobNotFound
from training.contract.failures import Failure
from training.contract.job_spec import JobSpec
from training.contract.price import InstanceSeconds
from training.contract.service import Description, Service
from training.services.budget import (
    NOTHING,
    SHORTEST_LIMIT_SECONDS,
    Amount,
    Budget,
    Spending,
    amount_text,
    budget_sentence,
    budget_text,
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
        return _RESERVATION.dump_json(self).decode()


_RESERVATION = TypeAdapter(Reservation)


def reservation(planned: PlannedJob, limit_seconds: int | None = None) -> Reservation:
    """Return the reservation of a job with this time limit, or with its own."""
    limit = planned.spec.max_run_seconds if limit_seconds is None else limit_seconds
    spec, price = planned.spec.model_copy(update={"max_run_seconds": limit}), planned.dearest_price
    return Reservation(limit_seconds=limit, worst=worst_case(spec, price), pool=warm_pool(spec, price))


def read_reservation(text: str) -> Reservation | None:
    """Return the reservation in a tag's text; None if it is withdrawn."""
    return None if text == WITHDRAWN else _RESERVATION.validate_json(text)


@dataclass(frozen=True, kw_only=True)
class JobRecord:
    """One job of a group, as its run records it."""

    arm: str = ""
    reserved: Mapping[str, Reservation] = field(default_factory=dict)
    """Reservation of each launcher's state folder, by the folder's id."""
    unlimited: Amount | None = None
    """Worst case of a job that a launcher without a budget opened."""
    is_submitted: bool = False
    has_ended: bool = False
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
        worst = [*([self.unlimited] if self.unlimited else []), *(each.worst for each in self.reserved.values())]
        return functools.reduce(Amount.at_least, worst) if worst else None


Records = Mapping[str, JobRecord]


def charge(record: JobRecord) -> Amount:
    """Return the share of the budget that a job takes."""
    if not record.has_ended:
        return record.worst or NOTHING
    if not record.was_billed:
        return NOTHING
    worst = record.worst or NOTHING
    if record.cost is None:
        return worst
    usd = worst.usd if record.cost.usd is None else record.cost.usd
    pools = (each.pool for each in record.reserved.values())
    pool = record.pool_cost or max(pools, key=lambda each: each.seconds, default=NOTHING)
    return Amount(seconds=record.cost.seconds, usd=usd) + pool


def committed(records: Records, *, without: str = "") -> Amount:
    """Return the share of the budget that all jobs take, except the one named `without`."""
    return total(charge(each) for name, each in records.items() if name != without)


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
    if not request.budget.allows(committed(records)):
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
    free = request.budget.left(committed(records, without=request.name))
    shortest = shortest_useful_seconds(records, planned.arm, request.least_seconds)
    price = planned.dearest_price
    limit = fitting_limit(planned.spec, price, free, shortest_seconds=shortest, jobs=request.jobs)
    if limit is not None:
        return reservation(planned, limit)
    # The job may get some room when another one ends for less than it could cost.
    others = {name: each for name, each in records.items() if name != request.name and not each.has_ended}
    return NoRoom(holding=frozenset(name for name, each in others.items() if each.worst or each.is_submitted))


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


BUDGET = "platform.budget"
BUDGET_END = "platform.budget_end"


@dataclass(frozen=True, kw_only=True)
class GroupBudget:
    """Budget of a group, as its latest command set it."""

    budget: Budget
    least_seconds: float | None = None
    """Shortest useful time limit of a job about which nothing is known, in seconds."""


@dataclass(frozen=True, kw_only=True)
class BudgetEnd:
    """State of a budget when it ended its group."""

    budget: Budget
    spent: Amount
    not_started: int | None
    """Jobs that were due and did not fit; None if their number is not known."""

    @property
    def left(self) -> Budget:
        return self.budget.left(self.spent)


_BUDGET = TypeAdapter(GroupBudget)
_END = TypeAdapter(BudgetEnd)


def set_budget(store: Store, group: Group, budget: GroupBudget) -> None:
    """Write the budget of a group, unless it has no limits: then an earlier command's budget remains."""
    earlier = group_budget(store, group)
    tags = {BUDGET: _BUDGET.dump_json(budget if budget.budget.is_limited else earlier).decode(), BUDGET_END: ""}
    if budget.budget.is_limited or earlier.budget.is_limited:
        store.tag(group.run_id, tags)


def group_budget(store: Store, group: Group) -> GroupBudget:
    """Return the budget of a group. A run that continues an earlier parent run may not have the tag yet."""
    tags = store.call(store.client.get_run, group.run_id).data.tags
    if BUDGET not in tags and group.continued:
        runs = search_runs(store, group.experiment_id, tagged(kind="group", group=group.id))
        tags = next((run.data.tags for run in runs if BUDGET in run.data.tags), {})
    return _BUDGET.validate_json(tags[BUDGET]) if BUDGET in tags else GroupBudget(budget=Budget())


def read_budget_end(tags: Mapping[str, str]) -> BudgetEnd | None:
    return _END.validate_json(tags[BUDGET_END]) if tags.get(BUDGET_END) else None


LIMIT = "platform.max_run_seconds"
"""Tag with the time limit of a job that a budget lowered."""
RESERVED = "platform.reserved."
"""Start of a tag with the reservation of one launcher's state folder; the folder's id follows."""
UNLIMITED = "platform.worst_case"
"""Tag with the worst case of a job that was started without a budget, in the form of a reservation."""


@dataclass(frozen=True)
class Ledger:
    """Budget and costs of one group."""

    store: Store
    service: Service
    group: Group

    @property
    def is_limited(self) -> bool:
        """True if the group has a budget now. Another launcher may set one at any time."""
        return group_budget(self.store, self.group).budget.is_limited

    def open_run(self, planned: PlannedJob, jobs: int = 1) -> JobRun:
        """Open the run of a job that would fit now. `jobs` could start now and share what is left. Raises BudgetFull.

        Without a budget, the job's worst case is a tag of the run, which a later budget counts.
        """
        if not self.is_limited:
            planned = replace(planned, tags={**planned.tags, UNLIMITED: reservation(planned).as_text()})
        elif isinstance(answer := self.room(planned, jobs), NoRoom):
            raise self._full(answer)
        return open_run(self.store, self.group, planned)

    def limit_seconds(self, planned: PlannedJob, run: JobRun, jobs: int = 1) -> int | None:
        """Reserve the worst case of a job, and return the time limit with which it fits; None without a budget."""
        if not self.is_limited:
            return None
        answer = self.reserve(planned, run.id, jobs)
        if isinstance(answer, NoRoom):
            raise self._full(answer)
        return answer.limit_seconds

    def why_no_room(self, planned: PlannedJob, names: Collection[str]) -> str | None:
        """Return why no further job like `planned` fits now, or None. One of `names` fits if it was started before."""
        if not self.is_limited:
            return None
        records = read_records(self.store, self.group)
        if any((each := records.get(name)) and (each.is_submitted or each.granted) for name in names):
            return None
        answer = self.room(replace(planned, arm="", spec=planned.spec.model_copy(update={"name": "any"})))
        return str(self._full(answer)).rstrip(".") if isinstance(answer, NoRoom) else None

    def _full(self, answer: NoRoom) -> BudgetFull:
        state = budget_sentence(self.spending())
        why = "no further job fits for certain" if answer.is_final else "a job waits until others have ended"
        return BudgetFull(f"{state}; {why}.", answer.holding, is_final=answer.is_final)

    def room(self, planned: PlannedJob, jobs: int = 1) -> Reservation | NoRoom:
        """Return whether a job would fit now. Reserves nothing. `jobs` could start now and share what is left."""
        request, records = self._request(planned, jobs), read_records(self.store, self.group)
        answer = room(request, records)
        if isinstance(answer, NoRoom) and self.service.traits.has_warm_pools:
            record_warm_pool_costs(self.store, self.service)  # a pool that has closed costs less than it could
            answer = room(request, read_records(self.store, self.group))
        return answer

    def reserve(self, planned: PlannedJob, run_id: str, jobs: int = 1) -> Reservation | NoRoom:
        """Reserve the worst case of a job, whose run is `run_id`, before it is submitted."""
        with held_lock(home() / "budget.lock"):
            record = read_records(self.store, self.group).get(planned.spec.name, JobRecord())
            if record.unlimited is not None and not record.is_submitted:
                # A launcher without a budget opened the run. It may not have submitted the job.
                try:
                    self.service.describe(planned.spec.name)
                except JobNotFound:
                    self.store.tag(run_id, {UNLIMITED: WITHDRAWN})
            request = self._request(planned, jobs)
            steps, records = reserve(request), None
            try:
                while True:
                    step = steps.send(records)
                    records = read_records(self.store, self.group) if step == "read" else None
                    if not isinstance(step, Write):
                        continue
                    reserved = step.reserved
                    tags = {RESERVED + request.launcher: reserved.as_text() if reserved else WITHDRAWN}
                    if reserved and reserved.limit_seconds < planned.spec.max_run_seconds:
                        tags[LIMIT] = str(reserved.limit_seconds)
                    self.store.tag(run_id, tags)
            except StopIteration as end:
                answer: Reservation | NoRoom = end.value
                return answer

    def _request(self, planned: PlannedJob, jobs: int) -> Request:
        current = group_budget(self.store, self.group)
        return Request(
            planned=planned,
            launcher=home_id(home()),
            budget=current.budget,
            least_seconds=current.least_seconds,
            jobs=jobs,
        )

    def spending(self, running: Amount = NOTHING) -> Spending:
        """Return the state of the budget; `running` is the cost so far of the jobs that have not ended."""
        records = read_records(self.store, self.group)
        spent = recorded_cost(records) + running
        return Spending(budget=group_budget(self.store, self.group).budget, spent=spent, committed=committed(records))

    def end(self, not_started: int | None = None) -> None:
        """Record that the budget ended the group before these jobs could start. None: their number is not known."""
        state = self.spending()
        end = BudgetEnd(budget=state.budget, spent=state.spent, not_started=not_started)
        self.store.tag(self.group.run_id, {BUDGET_END: _END.dump_json(end).decode()})

    @property
    def ended(self) -> BudgetEnd | None:
        return read_budget_end(self.store.call(self.store.client.get_run, self.group.run_id).data.tags)

    def log(self, running: Amount = NOTHING) -> Spending:
        """Log the cost so far to the group's run, and return the state of the budget."""
        spending = self.spending(running)
        run = self.store.call(self.store.client.get_run, self.group.run_id)
        now = time.time()
        step, at_ms = int(now - run.info.start_time / 1000), int(1000 * now)
        metrics = [Metric(name, value, at_ms, max(0, step)) for name, value in spending_metrics(spending).items()]
        self.store.call(self.store.client.log_batch, self.group.run_id, metrics=metrics)
        return spending


def end_sentence(end: BudgetEnd) -> str:
    """Return the statement that the budget ended the group, with the spent and the remaining part."""
    due = "1 job that was due" if end.not_started == 1 else f"{end.not_started or 'further'} jobs that were due"
    return (
        f"The budget of {budget_text(end.budget)} ended this early: {due} did not start, because they did not "
        f"certainly fit. {amount_text(end.spent, end.budget)} spent, {budget_text(end.left)} left."
    )


def spending_metrics(spending: Spending) -> dict[str, float]:
    """Return the metrics of a group's run; without those that are not known or not limited."""
    values = {
        "cost/billable_instance_seconds": spending.spent.seconds,
        "cost/usd": spending.spent.usd,
        "budget/left_seconds": spending.left.max_billable_seconds,
        "budget/left_usd": spending.left.max_usd,
        "budget/free_seconds": spending.free.max_billable_seconds,
        "budget/free_usd": spending.free.max_usd,
    }
    return {name: float(value) for name, value in values.items() if value is not None}


def read_records(store: Store, group: Group) -> dict[str, JobRecord]:
    """Return the records of all jobs of a group by name. Deleted runs count, because their jobs were billed."""
    by_job: dict[str, list[Run]] = {}
    for run in search_runs(store, group.experiment_id, tagged(kind="job", group=group.id), ViewType.ALL):
        by_job.setdefault(run.data.tags.get("platform.job_name", ""), []).append(run)
    return {name: _record(runs) for name, runs in by_job.items()}


def _record(runs: list[Run]) -> JobRecord:
    """Return the record of a job. It has one run, and those that a user deleted."""
    run = counted_run(runs)
    tags, failed = run.data.tags, run.info.status != "FINISHED"
    ended, cost = has_ended(run), _cost(run, "cost/billable_instance_seconds", "cost/usd")
    pool_cost = _cost(run, "cost/warm_pool_instance_seconds", "cost/warm_pool_usd")
    failure_class = tags.get("platform.failure_class", "Error") if ended and failed else None
    unlimited = read_reservation(tags[UNLIMITED]) if UNLIMITED in tags else None
    return JobRecord(
        arm=tags.get("arm", ""),
        reserved={
            tag.removeprefix(RESERVED): reserved
            for each in runs
            for tag, text in each.data.tags.items()
            if tag.startswith(RESERVED) and (reserved := read_reservation(text))
        },
        unlimited=unlimited.worst if unlimited else None,
        is_submitted=any(DESCRIBED in each.data.tags for each in runs),
        has_ended=ended,
        was_billed=cost is not None or not (ended and _never_ran(run, failure_class)),
        cost=cost,
        pool_cost=None if tags.get(WARM_POOL) in OPEN_POOL else pool_cost,
        billable_seconds=run.data.metrics.get("cost/billable_seconds"),
        failure_class=failure_class,
    )


def _never_ran(run: Run, failure_class: str | None) -> bool:
    """Return whether an ended job was refused, got no instance, or was stopped before it started.

    A vanished one may have run.
    """
    if failure_class == "Refused":
        return True
    return failure_class in {"Stopped", "Capacity"} and "platform.training_start_time" not in tags_of(run)


def _cost(run: Run, seconds_name: str, usd_name: str) -> Amount | None:
    seconds = run.data.metrics.get(seconds_name)
    if seconds is None:
        return None
    return Amount(seconds=InstanceSeconds(seconds), usd=run.data.metrics.get(usd_name))
