"""The budget of a group on the tracking server: reserve a part of it for a job, and log what is spent."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

from mlflow.entities import Metric

from tracking.budgets.budget_tag import BudgetEnd, GroupBudget, group_budget, read_budget_end, set_budget_end
from tracking.budgets.records import (
    WITHDRAWN,
    JobRecord,
    Records,
    Reservation,
    charge,
    recorded_cost,
    reservation,
)
from tracking.budgets.reserving import NoRoom, Request, Step, Write, reserve, room
from tracking.budgets.run_records import RESERVED, UNLIMITED, read_records
from tracking.groups.group import Group
from tracking.groups.planned_job import PlannedJob
from tracking.recording.recorder import OpenRun
from tracking.recording.warm_pools import record_warm_pool_costs
from tracking.server.store import Store
from training.contract.budget import NOTHING, Amount, Spending, budget_sentence, total
from training.contract.errors import BudgetFull, JobNotFound
from training.contract.service import Service
from training.state.home import home, home_id
from training.state.locks import exclusive_lock

LIMIT = "platform.max_run_seconds"
"""Tag with the time limit of a job that a budget lowered."""


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

    def limit_seconds(self, planned: PlannedJob, run: OpenRun, jobs: int = 1) -> int:
        """Reserve the worst case of a job before it is submitted, and return the time limit with which it fits.

        `jobs` could start now and share what is left. Raises BudgetFull.
        """
        answer = self.reserve(planned, run.id, jobs)
        if isinstance(answer, NoRoom):
            raise self._full(answer)
        return answer.limit_seconds

    def check_room(self, planned: PlannedJob, jobs: int = 1) -> None:
        """Raise BudgetFull if a job would not fit now. Reserves nothing, so that no run is opened in vain."""
        if isinstance(answer := self.room(planned, jobs), NoRoom):
            raise self._full(answer)

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
        if isinstance(answer, NoRoom) and self.service.name == "sagemaker" and _has_open_pool(records):
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
        return self._spending(self.records(), running)

    def _spending(self, records: Records, running: Amount) -> Spending:
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


def with_worst_case(planned: PlannedJob) -> PlannedJob:
    """Return a job that starts without a budget, with its worst case as a tag, which a later budget counts."""
    return replace(planned, tags={**planned.tags, UNLIMITED: reservation(planned).as_text()})


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


def _has_open_pool(records: Records) -> bool:
    return any(_holds_pool(record) for record in records.values())


def _holds_pool(record: JobRecord) -> bool:
    return record.has_ended and record.pool_cost is None and any(r.pool.seconds for r in record.reserved.values())
