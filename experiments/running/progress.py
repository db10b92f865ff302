"""Progress of a group: jobs done, cost so far and left, and the waits of jobs.

On a terminal it is one line that is updated. In a log it is a line every minute, and one when a job begins to wait.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import fmean

from experiments.running.followed_job import FollowedJob
from tracking.groups.planned_job import PlannedJob
from tracking.recording.recorder import Outcome
from training.contract.plain_text import duration_text
from training.contract.price import InstanceSeconds
from training.contract.service import Wait
from training.services.budget import Amount, Spending, budget_text, total

TERMINAL_SECONDS = 1.0
LOG_SECONDS = 60.0
"""Pause between two updates, on a terminal and in a log."""
SHORT_WAIT_SECONDS = 3.0
"""Wait that a log does not mention at once."""
ExpectedSeconds = Callable[[PlannedJob], float | None]
"""Returns the billable instance seconds of a job as earlier runs suggest them, or None."""


@dataclass(frozen=True, kw_only=True)
class GroupState:
    """Progress of a group at one moment."""

    ended: int
    most: int
    """Most jobs that the group runs."""
    is_most_certain: bool
    """False if arms may stop before they have run all their jobs."""
    running: int
    waits: Mapping[str, tuple[str, float]]
    """Reason and seconds of each wait, by the name of the job's run."""
    spent: Amount
    left: Amount | None
    """Expected cost of what remains; None if it is unknown."""
    spending: Spending | None = None
    """State of the group's budget, if it is known."""


def state_text(state: GroupState) -> str:
    """Return the progress as one line."""
    most = "" if state.is_most_certain else "at most "
    parts = [f"{state.ended} of {most}{state.most} {'job' if state.most == 1 else 'jobs'} done"]
    if state.running:
        parts[-1] += f", {state.running} running"
    at_most = "" if state.is_most_certain else " at most"
    parts.append(f"{duration_text(state.spent.seconds)} billed")
    if state.left:
        is_over = state.left.seconds < 1
        parts[-1] += ", almost done" if is_over else f", about {duration_text(state.left.seconds)} left{at_most}"
    if state.spent.usd or (state.left and state.left.usd):
        parts.append(f"{_usd_text(state.spent.usd)} USD so far")
        parts[-1] += f", about {_usd_text(state.left.usd)} USD left{at_most}" if state.left else ""
    if state.spending and state.spending.budget.is_limited:
        parts.append(f"{budget_text(state.spending.left)} of the budget left")
    return "; ".join([*parts, *wait_texts(state.waits)])


def wait_texts(waits: Mapping[str, tuple[str, float]]) -> list[str]:
    """Return the waits as texts, with one for all jobs that wait for the same reason."""
    by_reason: dict[str, list[tuple[str, float]]] = {}
    for name, (reason, seconds) in waits.items():
        by_reason.setdefault(reason, []).append((name, seconds))
    texts = []
    for reason, jobs in by_reason.items():
        longest = duration_text(max(seconds for _, seconds in jobs))
        who = f"{jobs[0][0]} has waited" if len(jobs) == 1 else f"{len(jobs)} jobs have waited up to"
        texts.append(f"{who} {longest} for {reason}")
    return texts


def _usd_text(usd: float | None) -> str:
    return "an unknown number of" if usd is None else f"{usd:,.2f}"


@dataclass
class GroupProgress:
    """Progress of one group, over all its waves."""

    echo: Callable[[str], None]
    """Prints a line."""
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
    _due: float = -1.0
    _logged_at: float | None = None
    _mentioned: frozenset[tuple[str, str]] = frozenset()
    """Jobs and their reasons to wait that the log mentions."""

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
        if now < self._due:
            return
        self._outcomes |= outcomes
        waits = {each.planned.run_name: self._wait(each.wait) for each in active if each.wait} | dict(blocked)
        if self.show_status:
            self._due = now + TERMINAL_SECONDS
            self.show_status(state_text(self._state(active, waits, spending)))
            return
        self._log(active, waits, spending, now)

    def close(self) -> None:
        """Remove the line from a terminal."""
        if self.show_status:
            self.show_status("")
        self._due = -1.0

    def _log(
        self,
        active: Collection[FollowedJob],
        waits: Mapping[str, tuple[str, float]],
        spending: Spending | None,
        now: float,
    ) -> None:
        """Log each new reason to wait, and the whole progress every minute."""
        long = {name: wait for name, wait in waits.items() if wait[1] >= SHORT_WAIT_SECONDS}
        reasons = frozenset((name, _kind(reason)) for name, (reason, _) in long.items())
        new = {name: wait for name, wait in long.items() if (name, _kind(wait[0])) not in self._mentioned}
        for text in wait_texts(new):
            self.echo(f"  {text}")
        self._mentioned = reasons
        if self._logged_at is None:
            self._logged_at = now
        elif now >= self._logged_at + LOG_SECONDS:
            self._logged_at = now
            self.echo(f"  {state_text(self._state(active, waits, spending))}")

    def _wait(self, wait: Wait) -> tuple[str, float]:
        """Return the reason of a wait, with jobs of this group under the names of their runs, and its seconds."""
        reason = wait.reason
        for job in self.jobs:
            reason = re.sub(rf"\b{re.escape(job.spec.name)}(?![\w-])", job.run_name, reason)
        return reason, max(0.0, (datetime.now(UTC) - wait.since).total_seconds())

    def _state(
        self, active: Collection[FollowedJob], waits: Mapping[str, tuple[str, float]], spending: Spending | None
    ) -> GroupState:
        outcomes = [
            each for each in self._outcomes.values() if each.planned.spec.name in {j.spec.name for j in self.jobs}
        ]
        running = {each.job.name: each.cost_so_far for each in active}
        return GroupState(
            ended=len(outcomes),
            most=len(self.jobs),
            is_most_certain=self.is_most_certain,
            running=sum(not each.wait for each in active),
            waits=waits,
            spent=total([*(each.cost for each in outcomes), *running.values()]),
            left=amount_left(self.jobs, outcomes, running, self.expected),
            spending=spending,
        )


def _kind(reason: str) -> str:
    """Return a reason without its details, which change often."""
    return reason.partition(" (")[0]


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
        seconds = _expected_seconds(job, costs, expected)
        if seconds is None:
            return None
        so_far = running.get(job.spec.name)
        billable = InstanceSeconds(max(0.0, seconds - (so_far.seconds if so_far else 0.0)))
        left.append(Amount(seconds=billable, usd=job.price.usd(billable) if job.price else None))
    return total(left)


def _expected_seconds(job: PlannedJob, costs: Mapping[str, Sequence[float]], expected: ExpectedSeconds) -> float | None:
    if job.arm in costs:
        return fmean(costs[job.arm])
    if (seconds := expected(job)) is not None:
        return seconds
    return fmean([fmean(each) for each in costs.values()]) if costs else None
