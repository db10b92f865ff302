"""The budget of a group on the tracking server: reserve a part of it for a job, and log what is spent."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

from mlflow.entities import Metric, Run, ViewType

from state.home import home, home_id
from state.locks import exclusive_lock
from tracking.budgets.budget_tag import BudgetEnd, GroupBudget, group_budget, read_budget_end, set_budget_end
from tracking.budgets.reserving import (
    WITHDRAWN,
    JobRecord,
    NoRoom,
    Records,
    Request,
    Reservation,
    Step,
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
from tracking.queries.job_tables import counted_run, has_ended
from tracking.recording.costs import OPEN_POOL, WARM_POOL, record_warm_pool_costs
from tracking.recording.recorder import DESCRIBED, JobRun, open_run
from tracking.server.store import Store
from training.contract.errors import BudgetFull, JobNotFound
from training.contract.price import InstanceSeconds
from training.contract.service import Service
from training.services.budget import NOTHING, Amount, Spending, budget_sentence, total

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
        return self.current().budget.is_limited

    def current(self) -> GroupBudget:
        """Return the budget that the latest command set."""
        return group_budget(self.store, self.group)

    def records(self) -> Records:
        """Return the records of all jobs of the group."""
        return read_records(self.store, self.group)

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
        records = self.records()
        if any((each := records.get(name)) and (each.is_submitted or each.granted) for name in names):
            return None
        any_job = replace(planned, arm="", spec=planned.spec.model_copy(update={"name": "any"}))
        answer = self.room(any_job)
        return str(self._full(answer)).rstrip(".") if isinstance(answer, NoRoom) else None

    def _full(self, answer: NoRoom) -> BudgetFull:
        state = budget_sentence(self.spending())
        why = "no further job fits for certain" if answer.is_final else "a job waits until others have ended"
        return BudgetFull(f"{state}; {why}.", answer.holding, is_final=answer.is_final)

    def room(self, planned: PlannedJob, jobs: int = 1) -> Reservation | NoRoom:
        """Return whether a job would fit now. Reserves nothing. `jobs` could start now and share what is left."""
        request, records = self._request(planned, jobs), self.records()
        answer = room(request, records)
        if (
            isinstance(answer, NoRoom)
            and self.service.traits.has_warm_pools
            and any(map(_may_hold_pool, records.values()))
        ):
            record_warm_pool_costs(self.store, self.service)  # a pool that has closed costs less than it could
            answer = room(request, self.records())
        return answer

    def reserve(self, planned: PlannedJob, run_id: str, jobs: int = 1) -> Reservation | NoRoom:
        """Reserve the worst case of a job, whose run is `run_id`, before it is submitted."""
        with self._lock():
            self._release_unsubmitted(planned, run_id)
            return self._perform(reserve(self._request(planned, jobs)), planned, run_id)

    def _release_unsubmitted(self, planned: PlannedJob, run_id: str) -> None:
        """Take back the worst case of a job that a launcher without a budget opened and did not submit."""
        record = self.records().get(planned.spec.name, JobRecord())
        if record.unlimited is None or record.is_submitted:
            return
        try:
            self.service.describe(planned.spec.name)
        except JobNotFound:
            self.store.tag(run_id, {UNLIMITED: WITHDRAWN})

    def _request(self, planned: PlannedJob, jobs: int) -> Request:
        current = self.current()
        return Request(
            planned=planned,
            launcher=self._launcher,
            budget=current.budget,
            least_seconds=current.least_seconds,
            jobs=jobs,
        )

    def _perform(
        self, steps: Generator[Step, Records | None, Reservation | NoRoom], planned: PlannedJob, run_id: str
    ) -> Reservation | NoRoom:
        try:
            step = next(steps)
            while True:
                if isinstance(step, Write):
                    self._write(planned, run_id, step.reserved)
                    step = next(steps)
                else:
                    step = steps.send(self.records())
        except StopIteration as end:
            answer: Reservation | NoRoom = end.value
            return answer

    def _write(self, planned: PlannedJob, run_id: str, reserved: Reservation | None) -> None:
        tags = {RESERVED + self._launcher: reserved.as_text() if reserved else WITHDRAWN}
        if reserved and reserved.limit_seconds < planned.spec.max_run_seconds:
            tags[LIMIT] = str(reserved.limit_seconds)
        self.store.tag(run_id, tags)

    @cached_property
    def _launcher(self) -> str:
        return home_id(home())

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Let launchers with the same state folder take turns, because they share one reservation for each job."""
        home().mkdir(parents=True, exist_ok=True)
        descriptor = exclusive_lock(home() / "budget.lock", wait=True)
        try:
            yield
        finally:
            os.close(descriptor)

    def spending(self, running: Amount = NOTHING) -> Spending:
        """Return the state of the budget; `running` is the cost so far of the jobs that have not ended."""
        records = self.records()
        # A job that recorded no worst case was started by an earlier version: nothing is known about it here.
        known = [charge(record, NOTHING) for record in records.values()]
        spent = recorded_cost(records) + running
        return Spending(budget=self.current().budget, spent=spent, committed=total(known))

    def end(self, not_started: int | None = None) -> None:
        """Record that the budget ended the group before these jobs could start. None: their number is not known."""
        state = self.spending()
        end = BudgetEnd(budget=state.budget, spent=state.spent, not_started=not_started)
        set_budget_end(self.store, self.group, end)

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


def _may_hold_pool(record: JobRecord) -> bool:
    return record.has_ended and record.pool_cost is None and any(r.pool.seconds for r in record.reserved.values())


def read_records(store: Store, group: Group) -> dict[str, JobRecord]:
    """Return the records of all jobs of a group by name. Deleted runs count, because their jobs were billed."""
    by_job: dict[str, list[Run]] = {}
    query = f"tags.\"platform.group\" = '{group.id}' and tags.\"platform.kind\" = 'job'"
    for run in search_runs(store, group.experiment_id, query, ViewType.ALL):
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
