"""Run the jobs of a group, from the first submission to the last record, in one loop of one thread.

The runs on the tracking server decide what remains to do: a job whose run has ended is kept, a running job is attached
to, and a job without a run is started. So the loop can be stopped at any time and started again.
"""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import fmean

from experiments.running.followed_job import FollowedJob, start_job
from judging.deterministic_failures import Death, deterministic_failure
from tracking.budgets.ledger import Ledger
from tracking.groups.group import Group
from tracking.groups.planned_job import PlannedJob
from tracking.recording.recorder import Outcome, Recorder, job_runs, recorded_outcome
from tracking.server.store import Store
from training.contract.errors import BudgetFull, QuotaError, TrainfareError
from training.contract.failures import Failure
from training.contract.plain_text import duration_text
from training.contract.price import InstanceSeconds
from training.contract.service import Service, Wait
from training.services.budget import NOTHING, Amount, Spending, budget_sentence, budget_text, total
from training.services.interruption import Detached, Interrupts
from training.services.launcher import stop_all

LEFT_OUT = "platform.repeats_left_out"
"""Tag of the run of a job that died, if further repeats of its arm were not started for that reason."""
_TICK_SECONDS = 0.05
_FULL_SECONDS = 60.0
"""Pause before the next start, after the account's quota had no room for a job."""
LOG_SECONDS = 30.0
"""Pause between two points of the live cost."""
_PAUSE_SECONDS = 5.0
"""Pause before the budget is read again, while jobs of other launchers may end."""
_STUCK_SECONDS = 600.0
"""A launcher without jobs waits so long for the same jobs of other launchers, which may have died."""


def run_jobs(
    store: Store,
    service: Service,
    group: Group,
    planned: Sequence[PlannedJob],
    *,
    parallel: int = 1,
    echo: Callable[[str], None] = print,
    progress: GroupProgress | None = None,
) -> list[Outcome]:
    """Run the remaining jobs of `planned`, at most `parallel` at a time, and return the outcomes in the same order.

    The result is shorter than `planned` if the group's budget has no room for more jobs, which is recorded as the end
    of the budget, if jobs were left out because all repeats of their arm would fail (see `without_left_out`), or if the
    user stopped the jobs. An error that ends the loop has a note with the names of jobs that may still be running.
    """
    jobs = _Jobs(store, service, group, planned, echo)
    costs = LiveCosts(jobs.ledger, echo)
    progress = progress or GroupProgress(echo, jobs=planned)
    leaves = "SLURM_JOB_ID" in os.environ and not service.traits.runs_here
    with (
        Interrupts(jobs.stop, leaves_at_sigterm=leaves) as interrupts,
        _detaching(service, group, jobs),
        closing(progress),
    ):
        while jobs.active or (jobs.waiting and not interrupts.stopping):
            # Alternate between starting one job and following one: hundreds of starts must not delay the followed jobs.
            started = False
            if jobs.waiting and jobs.running < parallel and not interrupts.stopping:
                started = jobs.start_next(parallel)
            if started and interrupts.stops_jobs:  # the signal arrived during the start
                jobs.stop()
            if not jobs.advance() and not started:
                time.sleep(_TICK_SECONDS)
            costs.log_if_due(jobs.active.values())
            progress.show(jobs.active.values(), jobs.outcomes, jobs.blocked, costs.state)
    costs.log()
    if jobs.waiting and not interrupts.stops_jobs:
        raise Detached
    return [jobs.outcomes[job.spec.name] for job in planned if job.spec.name in jobs.outcomes]


def start_jobs(
    store: Store,
    service: Service,
    group: Group,
    planned: Sequence[PlannedJob],
    *,
    parallel: int = 1,
    echo: Callable[[str], None] = print,
) -> int:
    """Start the jobs that `run_jobs` would start first, and leave them running. Return the number of other jobs."""
    jobs = _Jobs(store, service, group, planned, echo)
    with _detaching(service, group, jobs):
        while jobs.waiting and jobs.running < parallel and jobs.start_next(parallel):
            pass
    return len(jobs.waiting)


@contextmanager
def _detaching(service: Service, group: Group, jobs: _Jobs) -> Iterator[None]:
    """Leave all jobs running at the end. Add a note with the names of jobs that may still be running to an error."""
    try:
        yield
    except TrainfareError as error:
        if names := jobs.unended:
            listed = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
            error.add_note(
                f"Jobs that may still be running: {listed}. The same command attaches to them; "
                f"`{service.jobs_command} stop --group {group.id}` stops them."
            )
        raise
    finally:
        jobs.close()


class _Jobs:
    """Jobs of a group: those that are followed, those that wait to start, and the outcomes of those that ended."""

    def __init__(
        self,
        store: Store,
        service: Service,
        group: Group,
        planned: Sequence[PlannedJob],
        echo: Callable[[str], None],
    ) -> None:
        """Attach to the running jobs of the group."""
        self._store, self._echo = store, echo
        self._full_until = 0.0
        self._blocked: tuple[str, str, float] | None = None
        self._budget_wait = BudgetWait(echo)
        self.ledger = Ledger(store, service, group)
        self._runs = job_runs(store, group)
        self._deaths = {run.id: (run.arm, run.death) for run in self._runs.values()}
        """Arm and exception of each job, by the id of its run."""
        self._left_out: set[str] = set()
        """Arms of which jobs are left out."""
        self.active: dict[str, FollowedJob] = {}
        self.outcomes: dict[str, Outcome] = {}
        for job in planned:
            run = self._runs.get(job.spec.name)
            if run and run.has_ended and not run.is_incomplete:
                self.outcomes[job.spec.name] = recorded_outcome(job, run)
            elif run and run.is_described:
                self.active[job.spec.name] = FollowedJob(store, service, job, run, echo)
        self.waiting = deque(
            job for job in planned if job.spec.name not in self.outcomes and job.spec.name not in self.active
        )

    @property
    def running(self) -> int:
        """Number of jobs that keep others waiting: how a job ended decides which start next, unless it is late."""
        return sum(not followed.is_late for followed in self.active.values())

    def start_next(self, parallel: int) -> bool:
        """Start the first waiting job. Return False if it has no room now; no job waits if none ever will.

        A job of an arm whose repeats would all fail is left out, unless its run was opened already: somebody has to end
        that run.
        """
        job = self.waiting[0]
        if job.spec.name not in self._runs and self._leaves_out(job):
            self.waiting.popleft()
            return True
        if not self._budget_wait.is_over(len(self.active)):
            return False
        try:
            if not self._start(job, min(parallel - self.running, len(self.waiting))):
                return False
        except BudgetFull as full:
            self._wait_for_budget(full)
            return False
        self.waiting.popleft()
        self._blocked = None
        return True

    def _wait_for_budget(self, full: BudgetFull) -> None:
        """Put the jobs first that hold a part of the budget, or end the group if none holds any."""
        ordered = sorted(self.waiting, key=lambda job: job.spec.name not in full.holding)
        self.waiting.clear()
        if self._budget_wait.ends(full, len(self.active)):
            self.ledger.end(len(ordered))
            for job in ordered if full.is_final else ():
                if run := self._runs.get(job.spec.name):  # it was opened while another launcher reserved
                    Recorder(self._store, run.id, job).finish_refused(Failure("Refused", str(full)))
        else:
            self.waiting.extend(ordered)
            self._block(ordered[0], "room in the budget (other jobs have reserved it)")

    def _start(self, job: PlannedJob, sharing: int) -> bool:
        """Start a job. Return False if the account has no room for it now. Raises BudgetFull.

        `sharing` jobs could start now; they share what is left of the budget.
        """
        if time.monotonic() < self._full_until:
            return False
        name = job.spec.name
        if name not in self._runs:
            self._runs[name] = run = self.ledger.open_run(job, sharing)
            if run.has_ended:  # another launcher has run the job meanwhile
                self._record(recorded_outcome(job, run))
                return True
        try:
            started = start_job(self.ledger, job, self._runs[name], self._echo, sharing)
        except QuotaError as error:
            self._block(job, error.waits_for)
            self._full_until = time.monotonic() + _FULL_SECONDS
            return False
        if isinstance(started, Outcome):
            self._record(started)
        else:
            self.active[name] = started
        return True

    def advance(self) -> bool:
        """Record new events of the job that is due first. Return False if no job is due."""
        name = min(self.active, key=lambda each: self.active[each].due, default=None)
        if name is None or self.active[name].due > time.monotonic():
            return False
        if outcome := self.active[name].advance():
            self._record(outcome)
            del self.active[name]
        return True

    def _record(self, outcome: Outcome) -> None:
        self.outcomes[outcome.planned.spec.name] = outcome
        self._deaths[outcome.run_id] = outcome.planned.arm, outcome.death

    def _leaves_out(self, job: PlannedJob) -> bool:
        """Return True if the job must not be started. Report its arm once, and record it for the report."""
        failure = failing_arms(self._deaths.values()).get(job.arm)
        if failure and job.arm not in self._left_out:
            self._left_out.add(job.arm)
            self._echo(f"  {job.arm}: no further repeats are started: they would fail as well ({failure.exception})")
            died = next(run_id for run_id, (arm, death) in self._deaths.items() if death and arm == job.arm)
            self._store.tag(died, {LEFT_OUT: "true"})
        return failure is not None

    def _block(self, job: PlannedJob, reason: str) -> None:
        since = self._blocked[2] if self._blocked else time.monotonic()
        self._blocked = job.run_name, reason, since

    @property
    def blocked(self) -> dict[str, tuple[str, float]]:
        """Reason and seconds of the next job's wait, by the name of its run; empty if the job may start."""
        if self._blocked is None or not self.waiting:
            return {}
        name, reason, since = self._blocked
        return {name: (reason, time.monotonic() - since)}

    def stop(self) -> None:
        """Ask all jobs to stop. Raises the first error."""
        stop_all([followed.stop for followed in self.active.values()])

    @property
    def unended(self) -> list[str]:
        """Names of the jobs whose run is open: they have started or are starting."""
        return [name for name in self._runs if name not in self.outcomes]

    def close(self) -> None:
        """Stop following the jobs. They keep running."""
        for followed in self.active.values():
            followed.close()


def failing_arms(deaths: Iterable[tuple[str, Death | None]]) -> dict[str, Death]:
    """Return the exception of each arm whose further repeats would all fail, from the arms and deaths of its jobs."""
    by_arm: dict[str, list[Death]] = {}
    for arm, death in deaths:
        by_arm.setdefault(arm, []).extend([death] if death else [])
    return {arm: failure for arm, of_arm in by_arm.items() if (failure := deterministic_failure(of_arm))}


def without_left_out(jobs: Sequence[PlannedJob], outcomes: Collection[Outcome]) -> list[PlannedJob]:
    """Return the jobs without those that were left out because all repeats of their arm would fail."""
    ended = {outcome.planned.spec.name for outcome in outcomes}
    failing = failing_arms((outcome.planned.arm, outcome.death) for outcome in outcomes)
    return [job for job in jobs if job.spec.name in ended or job.arm not in failing]


@dataclass
class BudgetWait:
    """Wait of a launcher whose next job does not fit into what is left of the budget."""

    echo: Callable[[str], None]
    _until: float = 0.0
    _active: int = 0
    _holding: frozenset[str] | None = None
    _since: float = 0.0

    def is_over(self, active: int) -> bool:
        """Return whether to try again: a followed job has ended, or the pause is over."""
        return active < self._active or time.monotonic() >= self._until

    def ends(self, full: BudgetFull, active: int) -> bool:
        """Return True if no room is expected any more. Prints the wait when it begins."""
        if full.is_final:
            self.echo(f"  {full}")
            return True
        now = time.monotonic()
        if active or full.holding != self._holding:
            if self._holding is None:
                self.echo(f"  {full}")
            self._holding, self._since = full.holding, now
        self._until, self._active = now + _PAUSE_SECONDS, active
        return now - self._since > _STUCK_SECONDS


@dataclass
class LiveCosts:
    """Cost of a group, logged to its run while its jobs run."""

    ledger: Ledger
    echo: Callable[[str], None]
    state: Spending | None = None
    _due: float = 0.0
    _followed: frozenset[str] = field(default_factory=frozenset)
    _has_news: bool = False
    """True if a job has ended since the latest point."""

    def log_if_due(self, active: Iterable[FollowedJob]) -> None:
        """Log the cost so far if a job has ended, or if the pause is over."""
        followed = {each.job.name: each for each in active}
        self._has_news |= not self._followed <= followed.keys()
        self._followed = frozenset(followed)
        if time.monotonic() < (self._due - LOG_SECONDS + _PAUSE_SECONDS if self._has_news else self._due):
            return
        self.log(total(each.cost_so_far for each in followed.values()))
        if self._has_news and self.state and self.state.budget.is_limited:
            self.echo(f"  {budget_sentence(self.state)}")
        self._has_news = False

    def log(self, running: Amount = NOTHING) -> None:
        """Log the cost so far; `running` is the part of jobs that have not ended."""
        self.state = self.ledger.log(running)
        self._due = time.monotonic() + LOG_SECONDS


TERMINAL_SECONDS = 1.0
PROGRESS_SECONDS = 60.0
"""Pause between two updates of a group's progress, on a terminal and in a log."""
ExpectedSeconds = Callable[[PlannedJob], float | None]
"""Returns the billable instance seconds of a job as earlier runs suggest them, or None."""


def state_text(
    *,
    ended: int,
    most: int,
    is_most_certain: bool,
    running: int,
    waits: Mapping[str, tuple[str, float]],
    spent: Amount,
    left: Amount | None,
    spending: Spending | None = None,
) -> str:
    """Return the progress of a group as one line.

    It runs at most `most` jobs. `waits` has the reason and the seconds of each wait, by the name of the job's run.
    `left` is the expected cost of what remains; None if it is unknown. `spending` is the state of its budget.
    """
    most_jobs = f"{'' if is_most_certain else 'at most '}{most} {'job' if most == 1 else 'jobs'}"
    parts = [f"{ended} of {most_jobs} done" + (f", {running} running" if running else "")]
    at_most = "" if is_most_certain else " at most"
    parts.append(f"{duration_text(spent.seconds)} billed")
    if left:
        about = f", about {duration_text(left.seconds)} left{at_most}"
        parts[-1] += ", almost done" if left.seconds < 1 else about
    if spent.usd or (left and left.usd):
        parts.append(f"{_usd_text(spent.usd)} USD so far")
        parts[-1] += f", about {_usd_text(left.usd)} USD left{at_most}" if left else ""
    if spending and spending.budget.is_limited:
        parts.append(f"{budget_text(spending.left)} of the budget left")
    by_reason: dict[str, list[tuple[str, float]]] = {}
    for name, (reason, seconds) in waits.items():
        by_reason.setdefault(reason, []).append((name, seconds))
    for reason, jobs in by_reason.items():
        longest = duration_text(max(seconds for _, seconds in jobs))
        who = f"{jobs[0][0]} has waited" if len(jobs) == 1 else f"{len(jobs)} jobs have waited up to"
        parts.append(f"{who} {longest} for {reason}")
    return "; ".join(parts)


def _usd_text(usd: float | None) -> str:
    return "an unknown number of" if usd is None else f"{usd:,.2f}"


@dataclass
class GroupProgress:
    """Progress of one group, over all its waves."""

    echo: Callable[[str], None]
    show_status: Callable[[str], None] | None = None
    """Replaces the last line of a terminal; an empty text removes it. None in a log."""
    expected: ExpectedSeconds = lambda _: None
    """Billable instance seconds of a job, from earlier runs."""
    is_most_certain: bool = True
    """False if arms may stop before they have run all their jobs."""
    clock: Callable[[], float] = time.monotonic
    jobs: Sequence[PlannedJob] = ()
    """Jobs that have ended, run or may run; see `plan`."""
    _outcomes: dict[str, Outcome] = field(default_factory=dict)
    _due: float | None = None

    def plan(self, jobs: Collection[PlannedJob]) -> None:
        """Set the jobs that may still run, in place of those that have not ended."""
        ended = [job for job in self.jobs if job.spec.name in self._outcomes]
        names = {job.spec.name for job in ended}
        self.jobs = [*ended, *(job for job in jobs if job.spec.name not in names)]

    def show(
        self,
        active: Collection[FollowedJob],
        outcomes: Mapping[str, Outcome],
        blocked: Mapping[str, tuple[str, float]],
        spending: Spending | None = None,
    ) -> None:
        """Show the progress if it is due. `blocked` are the waits of jobs that are not submitted yet."""
        now = self.clock()
        self._outcomes |= outcomes
        if self._due is not None and now < self._due:
            return
        is_first, self._due = self._due is None, now + (TERMINAL_SECONDS if self.show_status else PROGRESS_SECONDS)
        if not self.show_status and is_first:
            return
        ended = [self._outcomes[job.spec.name] for job in self.jobs if job.spec.name in self._outcomes]
        running = {each.job.name: each.cost_so_far for each in active}
        text = state_text(
            ended=len(ended),
            most=len(self.jobs),
            is_most_certain=self.is_most_certain,
            running=sum(not each.wait for each in active),
            waits={each.planned.run_name: self._wait(each.wait) for each in active if each.wait} | dict(blocked),
            spent=total([*(each.cost for each in ended), *running.values()]),
            left=amount_left(self.jobs, ended, running, self.expected),
            spending=spending,
        )
        if self.show_status:
            self.show_status(text)
        else:
            self.echo(f"  {text}")

    def close(self) -> None:
        """Remove the line from a terminal, before the next wave or the end."""
        if self.show_status:
            self.show_status("")
            self._due = None

    def _wait(self, wait: Wait) -> tuple[str, float]:
        """Return the reason of a wait, with jobs of this group under the names of their runs, and its seconds."""
        reason = wait.reason
        for job in self.jobs:
            reason = re.sub(rf"\b{re.escape(job.spec.name)}(?![\w-])", job.run_name, reason)
        return reason, max(0.0, (datetime.now(UTC) - wait.since).total_seconds())


def amount_left(
    jobs: Sequence[PlannedJob],
    outcomes: Iterable[Outcome],
    running: Mapping[str, Amount],
    expected: ExpectedSeconds,
) -> Amount | None:
    """Return the expected cost of what remains, or None if it is unknown.

    `running` is the cost so far of the running jobs by name. A job costs what the successful jobs of its arm have cost
    on average; else what `expected` says; else what the jobs of the other arms have cost. A job that runs longer than
    that is about to end.
    """
    ended, costs = set[str](), dict[str, list[float]]()
    for outcome in outcomes:
        ended.add(outcome.planned.spec.name)
        if outcome.failure is None and outcome.cost.seconds > 0:
            costs.setdefault(outcome.planned.arm, []).append(outcome.cost.seconds)
    left = []
    for job in jobs:
        if job.spec.name in ended:
            continue
        seconds = fmean(costs[job.arm]) if job.arm in costs else expected(job)
        if seconds is None and costs:
            seconds = fmean(fmean(each) for each in costs.values())
        if seconds is None:
            return None
        so_far = running.get(job.spec.name)
        billable = InstanceSeconds(max(0.0, seconds - (so_far.seconds if so_far else 0.0)))
        left.append(Amount(seconds=billable, usd=job.price.usd(billable) if job.price else None))
    return total(left)
