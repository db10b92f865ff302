"""A budget holds whatever launchers do: 200 random schedules with kills at every step, simulated without a server.

Each `yield` of a launcher is a point at which another one may go on, or at which the launcher may be killed. Reads and
writes of the tracking server are one step each. Launchers with the same state folder share a lock, which a kill frees.
"""

from __future__ import annotations

import random
from collections.abc import Generator
from dataclasses import dataclass, field, replace

import pytest

from tests.support.tracking.planned_jobs import planned_as
from tracking.budgets.ledger import JobRecord, NoRoom, Request, Reservation, Write, reserve, warm_pool, with_limit
from tracking.groups.planned_job import PlannedJob
from training.contract.job_spec import JobSpec
from training.contract.price import Price, instance_seconds
from training.services.budget import Amount, Budget, overhead_seconds, total, worst_case


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_no_schedule_exceeds_its_budget(first: int) -> None:
    kills = created = refused = 0
    for seed in range(first, first + 20):
        schedule = Schedule(seed)
        schedule.run()
        assert schedule.budget.allows(schedule.most), f"seed {seed}: {schedule.most} of {schedule.budget}"
        kills, created = kills + schedule.kills, created + len(schedule.created)
        refused += schedule.refused
    assert kills > 20
    assert created > 20
    assert refused > 5


@dataclass
class Created:
    """A job of the simulated service."""

    planned: PlannedJob
    limit_seconds: int
    ends_at: float
    """Time of its end, by the schedule's clock."""
    billed: Amount
    """Cost when it has ended, with its warm pool."""
    pool: Amount

    @property
    def worst(self) -> Amount:
        """Most that it can cost with the limit with which it was created."""
        return worst_case(with_limit(self.planned.spec, self.limit_seconds), self.planned.price)


@dataclass
class Schedule:
    """One random schedule of launchers, jobs, kills and late records."""

    seed: int
    records: dict[str, JobRecord] = field(default_factory=dict)
    created: dict[str, Created] = field(default_factory=dict)
    locks: set[str] = field(default_factory=set)
    clock: float = 0.0
    kills: int = 0
    refused: int = 0
    most: Amount = field(default_factory=lambda: total([]))

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.jobs = [self._job(at) for at in range(self.rng.randint(2, 8))]
        whole = total(worst_case(job.spec, job.price) for job in self.jobs)
        share = self.rng.uniform(0.05, 1.1)
        assert whole.usd is not None
        self.budget = Budget(
            max_usd=whole.usd * share if self.rng.random() < 0.7 else None,
            max_billable_seconds=whole.seconds * self.rng.uniform(0.05, 1.1),
        )

    def _job(self, at: int) -> PlannedJob:
        rng = self.rng
        spec = JobSpec(
            name=f"job-{at}",
            hyperparameters={},
            channels={},
            source_uri="file:///source",
            output_uri="file:///output",
            instance_type="ml.g5.xlarge",
            instance_count=rng.choice([1, 1, 2]),
            max_run_seconds=rng.choice([100, 1000, 20_000]),
            keep_alive_seconds=rng.choice([0, 0, 0, 900]),
        )
        price = Price(usd_per_hour=rng.choice([0.5, 3.6, 30.0]), source="table", date="2026-11-01")
        return replace(planned_as(spec, f"arm {at % 2}", at), price=price)

    def run(self) -> None:
        """Run the schedule to its end. Kills stop after a while, and then every launcher works to its end."""
        homes = [self.rng.choice(["here", "elsewhere", "far"]) for _ in range(self.rng.choice([1, 2, 3, 3]))]
        launchers = [self._launcher(home) for home in homes]
        for turn in range(100_000):
            at = self.rng.randrange(len(launchers))
            if turn < 400 and self.rng.random() < 0.04:
                launchers[at].close()  # frees its lock, as the kernel does
                self.kills += 1
                launchers[at] = self._launcher(homes[at])
            if next(launchers[at], "done") == "done" and turn >= 400 and self._is_over(launchers):
                return
            self.clock += self.rng.expovariate(1 / 20.0)
            self._check()
        raise AssertionError("the schedule does not end")

    def _is_over(self, launchers: list[Generator[None, None, None]]) -> bool:
        return all(next(each, "done") == "done" for each in launchers)

    def _check(self) -> None:
        """Add up what the jobs of the service cost, and can still cost with the limits that they were created with."""
        now = total(job.billed if job.ends_at <= self.clock else job.worst for job in self.created.values())
        self.most = self.most.at_least(now)

    def _launcher(self, home: str) -> Generator[None, None, None]:
        parallel, order = self.rng.randint(1, 3), self.rng.sample(self.jobs, len(self.jobs))
        while waiting := [job for job in order if not self._record(job.spec.name).has_ended]:
            progressed = False
            for planned in waiting[:parallel]:
                name = planned.spec.name
                yield
                if name in self.created:
                    progressed = True
                    yield from self._follow(name)
                    continue
                self.records.setdefault(name, JobRecord(arm=planned.arm))
                answer = yield from self._reserved(planned, home, parallel)
                if isinstance(answer, NoRoom):
                    first = answer.holding
                    order.sort(key=lambda job: job.spec.name not in first)
                    if answer.is_final:
                        self.refused += 1
                        return
                    continue
                yield  # a kill here leaves a reservation without a job
                self._submit(planned, answer)
                progressed = True
                yield  # a kill here leaves a job that is not marked as submitted
                self._change(name, is_submitted=True)
            if not progressed:
                yield

    def _reserved(self, planned: PlannedJob, home: str, jobs: int) -> Generator[None, None, Reservation | NoRoom]:
        while home in self.locks:
            yield
        self.locks.add(home)
        try:
            steps = reserve(Request(planned=planned, launcher=home, budget=self.budget, jobs=jobs))
            step = next(steps)
            while True:
                yield
                if isinstance(step, Write):
                    name, written = planned.spec.name, {} if step.reserved is None else {home: step.reserved}
                    others = {each: at for each, at in self._record(name).reserved.items() if each != home}
                    self._change(name, reserved={**others, **written})
                    step = next(steps)
                else:
                    step = steps.send(dict(self.records))
        except StopIteration as end:
            answer: Reservation | NoRoom = end.value
            return answer
        finally:
            self.locks.discard(home)

    def _submit(self, planned: PlannedJob, granted: Reservation) -> None:
        if planned.spec.name in self.created:
            return  # JobExists: another launcher was faster
        spec, rng = planned.spec, self.rng
        assert planned.price is not None
        longest = granted.limit_seconds + overhead_seconds(spec)
        seconds = rng.choice([0.0, rng.uniform(0, longest), longest, longest])
        pool = warm_pool(spec.model_copy(update={"keep_alive_seconds": rng.randint(0, spec.keep_alive_seconds)}), None)
        pool = Amount(seconds=pool.seconds, usd=planned.price.usd(pool.seconds))
        billable = instance_seconds(seconds, spec.instance_count)
        billed = Amount(seconds=billable, usd=planned.price.usd(billable)) + pool
        end = self.clock + seconds
        self.created[spec.name] = Created(planned, granted.limit_seconds, end, billed, pool)

    def _follow(self, name: str) -> Generator[None, None, None]:
        """Record the job's cost once it has ended. The end comes after the cost, and the pool's cost much later."""
        job, record = self.created[name], self._record(name)
        if record.has_ended or self.clock < job.ends_at:
            return
        failure = self.rng.choice([None, "Error", "Budget"])
        is_lost = self.rng.random() < 0.1  # the service no longer knows what it billed
        own = Amount(
            seconds=instance_seconds(job.billed.seconds - job.pool.seconds, 1),
            usd=(job.billed.usd or 0.0) - (job.pool.usd or 0.0),
        )
        if not is_lost:
            self._change(name, cost=own, billable_seconds=own.seconds / job.planned.spec.instance_count)
        yield
        self._change(name, has_ended=True, failure_class=failure)
        if self.rng.random() < 0.5:
            yield
            self._change(name, pool_cost=job.pool)

    def _record(self, name: str) -> JobRecord:
        return self.records.get(name, JobRecord())

    def _change(self, name: str, **fields: object) -> None:
        self.records[name] = replace(self._record(name), **fields)  # type: ignore[arg-type]
