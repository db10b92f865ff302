"""Wait for room in a budget, and log the cost of a group while its jobs run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tracking.budgets.ledger import Ledger
from tracking.following.followed_job import FollowedJob
from training.contract.budget import NOTHING, Amount, Spending, budget_sentence, total
from training.contract.errors import BudgetFull

Clock = Callable[[], float]

LOG_SECONDS = 30.0
"""Pause between two points of the live cost."""
_PAUSE_SECONDS = 5.0
"""Pause before the budget is read again, while jobs of other launchers may end."""
_STUCK_SECONDS = 600.0
"""A launcher without jobs waits so long for the same jobs of other launchers, which may have died."""


@dataclass
class BudgetWait:
    """Wait of a launcher whose next job does not fit into what is left of the budget."""

    echo: Callable[[str], None]
    clock: Clock = time.monotonic
    _until: float = 0.0
    _active: int = 0
    _holding: frozenset[str] | None = None
    _since: float = 0.0

    def is_over(self, active: int) -> bool:
        """Return whether to try again: a followed job has ended, or the pause is over."""
        return active < self._active or self.clock() >= self._until

    def ends(self, full: BudgetFull, active: int) -> bool:
        """Return whether waiting for room is in vain. Prints the wait when it begins."""
        if full.is_final:
            self.echo(f"  {full}")
            return True
        now = self.clock()
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
    clock: Clock = time.monotonic
    state: Spending | None = None
    """The latest state; None before the first one."""
    _due: float = 0.0
    _followed: frozenset[str] = field(default_factory=frozenset)
    _has_news: bool = False
    """True if a job has ended since the latest point."""

    def log_if_due(self, active: Iterable[FollowedJob]) -> None:
        """Log the cost so far if a job has ended, or if the pause is over."""
        followed = {each.job.name: each for each in active}
        self._has_news |= not self._followed <= followed.keys()
        self._followed = frozenset(followed)
        if self.clock() < (self._due - LOG_SECONDS + _PAUSE_SECONDS if self._has_news else self._due):
            return
        self.log(total(each.cost_so_far for each in followed.values()))
        if self._has_news and self.state and self.state.budget.is_limited:
            self.echo(f"  {budget_sentence(self.state)}")
        self._has_news = False

    def log(self, running: Amount = NOTHING) -> None:
        """Log the cost so far; `running` is the part of jobs that have not ended."""
        self.state = self.ledger.log(running)
        self._due = self.clock() + LOG_SECONDS
