"""The budget of a group on the tracking server: reserve a part of it for a job, and log what is spent."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from mlflow.entities import Metric

from tracking.budgets.budget_tag import GroupBudget, group_budget
from tracking.budgets.records import WITHDRAWN, JobRecord, Records, Reservation, charge, recorded_cost
from tracking.budgets.reserving import NoRoom, Request, Step, Write, reserve, room
from tracking.budgets.run_records import RESERVED, read_records
from tracking.groups.group import Group
from tracking.groups.planned_job import PlannedJob
from tracking.recording.warm_pools import record_warm_pool_costs
from tracking.server.store import Store
from training.contract.budget import NOTHING, Amount, Spending, total
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
            return self._perform(reserve(self._request(planned, jobs)), planned, run_id)

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


def _has_open_pool(records: Records) -> bool:
    return any(_holds_pool(record) for record in records.values())


def _holds_pool(record: JobRecord) -> bool:
    return record.has_ended and record.pool_cost is None and any(r.pool.seconds for r in record.reserved.values())
