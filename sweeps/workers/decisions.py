"""A study's search as the workers' loop asks for it: Optuna's trials in, points and sentences out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sweeps.cost_model import pruning
from sweeps.cost_model.expected_improvement import nothing_left
from sweeps.cost_model.trials import Record, Search, free_points, records
from sweeps.space.grid import Point
from sweeps.space.objective import CurvePoint

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial


@dataclass(frozen=True, kw_only=True)
class Decisions:
    """A `sweeps.workers.strategy.Strategy`."""

    search: Search
    prunes: bool = True
    """Whether a trial that cannot win any more is stopped."""
    ends_early: bool = True
    """Whether the study ends when no point left promises a saving; a sampler to compare with goes on."""
    _known: dict[int, Record] = field(default_factory=dict)

    def free_points(self, trials: Sequence[FrozenTrial]) -> Sequence[Point]:
        """Return the points that no trial has, and that may fit the memory."""
        return free_points(self.search, self._records(trials))

    def nothing_left(self, trials: Sequence[FrozenTrial]) -> str | None:
        """Return the sentence why no point left is worth its price, else None."""
        return nothing_left(self.search, self._records(trials)) if self.ends_early else None

    def hopeless(
        self, trials: Sequence[FrozenTrial], point: Point, curve: Sequence[CurvePoint], billable_instance_seconds: float
    ) -> str | None:
        """Return the sentence why a running trial cannot win any more, else None."""
        if not self.prunes:
            return None
        return pruning.hopeless(self.search, self._records(trials), point, curve, billable_instance_seconds)

    def _records(self, trials: Sequence[FrozenTrial]) -> tuple[Record, ...]:
        return records(trials, self.search.space, self._known)
