"""The budget of a group on the tracking server: reserve a part of it for a job, and log what is spent."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from mlflow.entities import Metric, Run, ViewType
from pydantic import TypeAdapter, ValidationError

from state.home import home, home_id
from state.locks import held_lock
from tracking.budgets.reserving import (
    WITHDRAWN,
    JobRecord,
    NoRoom,
    Request,
    Reservation,
    Write,
    charge,
    read_reservation,
    recorded_cost,
    reservation,
    reserve,
    room,
)
from tracking.groups.group import Group, search_runs
from tracking.groups.planned_job import PlannedJob
from tracking.queries.job_tables import counted_run, has_ended, tagged
from tracking.recording.metrics import OPEN_POOL, WARM_POOL, record_warm_pool_costs
from tracking.recording.recorder import DESCRIBED, JobRun, open_run
from tracking.server.store import Store
from training.contract.errors import BudgetFull, JobNotFound
from training.contract.price import InstanceSeconds
from training.contract.service import Service
from training.services.budget import NOTHING, Amount, Budget, Spending, amount_text, budget_sentence, budget_text, total

BUDGET = "platform.budget"
"""Tag of a group's run with its budget."""
BUDGET_END = "platform.budget_end"
"""Tag of the run of a group that its budget ended."""


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
    """Cost of all jobs."""
    not_started: int | None
    """Jobs that were due and did not fit; None if their number is not known."""

    @property
    def left(self) -> Budget:
        """Part of the budget that was not spent."""
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
    """Return the state of the budget that ended a group; None if none did, or if the tag is damaged."""
    try:
        return _END.validate_json(tags[BUDGET_END]) if tags.get(BUDGET_END) else None
    except ValidationError:
        return None


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
        """Reserve the worst case of a job before it is submitted, and return the time limit with which it fits.

        None without a budget. `jobs` could start now and share what is left. Raises BudgetFull.
        """
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
        may_hold_pool = any(
            each.has_ended and each.pool_cost is None and any(every.pool.seconds for every in each.reserved.values())
            for each in records.values()
        )
        if isinstance(answer, NoRoom) and self.service.traits.has_warm_pools and may_hold_pool:
            record_warm_pool_costs(self.store, self.service)  # a pool that has closed costs less than it could
            answer = room(request, read_records(self.store, self.group))
        return answer

    def reserve(self, planned: PlannedJob, run_id: str, jobs: int = 1) -> Reservation | NoRoom:
        """Reserve the worst case of a job, whose run is `run_id`, before it is submitted.

        Launchers with the same state folder take turns, because they share one reservation for each job.
        """
        with held_lock(home() / "budget.lock"):
            record = read_records(self.store, self.group).get(planned.spec.name, JobRecord())
            if record.unlimited is not None and not record.is_submitted:
                # A launcher without a budget opened the run. It may not have submitted the job.
                try:
                    self.service.describe(planned.spec.name)
                except JobNotFound:
                    self.store.tag(run_id, {UNLIMITED: WITHDRAWN})
            request = self._request(planned, jobs)
            steps = reserve(request)
            try:
                step = next(steps)
                while True:
                    if not isinstance(step, Write):
                        step = steps.send(read_records(self.store, self.group))
                        continue
                    reserved = step.reserved
                    tags = {RESERVED + request.launcher: reserved.as_text() if reserved else WITHDRAWN}
                    if reserved and reserved.limit_seconds < planned.spec.max_run_seconds:
                        tags[LIMIT] = str(reserved.limit_seconds)
                    self.store.tag(run_id, tags)
                    step = next(steps)
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
        # A job that recorded no worst case was started by an earlier version: nothing is known about it here.
        known = [charge(record, NOTHING) for record in records.values()]
        spent = recorded_cost(records) + running
        return Spending(budget=group_budget(self.store, self.group).budget, spent=spent, committed=total(known))

    def end(self, not_started: int | None = None) -> None:
        """Record that the budget ended the group before these jobs could start. None: their number is not known."""
        state = self.spending()
        end = BudgetEnd(budget=state.budget, spent=state.spent, not_started=not_started)
        self.store.tag(self.group.run_id, {BUDGET_END: _END.dump_json(end).decode()})

    @property
    def ended(self) -> BudgetEnd | None:
        """State of the budget when it ended the group; None if it did not."""
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
    """Return the record of a job. It has one run, unless an earlier version opened more, or a user deleted one."""
    run = counted_run(runs)
    tags, failed = run.data.tags, run.info.status != "FINISHED"
    ended, cost = has_ended(run), _cost(run, "cost/billable_instance_seconds", "cost/usd")
    pool_cost = _cost(run, "cost/warm_pool_instance_seconds", "cost/warm_pool_usd")
    failure_class = tags.get("platform.failure_class", "Error") if ended and failed else None
    unlimited = read_reservation(tags[UNLIMITED]) if UNLIMITED in tags else None
    return JobRecord(
        arm=tags.get("platform.arm", ""),
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
    return failure_class in {"Stopped", "Capacity"} and "platform.training_start_time" not in run.data.tags


def _cost(run: Run, seconds_name: str, usd_name: str) -> Amount | None:
    seconds = run.data.metrics.get(seconds_name)
    if seconds is None:
        return None
    return Amount(seconds=InstanceSeconds(seconds), usd=run.data.metrics.get(usd_name))
