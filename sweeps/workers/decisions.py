"""Decisions about a study, made from its Optuna trials by the cost model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sweeps.cost_model import pruning
from sweeps.cost_model.ending import stop_reason
from sweeps.cost_model.trials import Record, Search, free_points, records
from sweeps.space.grid import Point
from sweeps.space.objective import CurvePoint

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial


@dataclass(frozen=True, kw_only=True)
class Decisions:
    """Implementation of `sweeps.workers.strategy.Strategy` with the cost model."""

    search: Search
    prunes: bool = True
    """True to stop trials that can no longer win."""
    ends_early: bool = True
    """True to end the study when no better point is likely; False to train all points or `sweep.trials` of them."""
    _known: dict[int, Record] = field(default_factory=dict)

    def free_points(self, trials: Sequence[FrozenTrial]) -> Sequence[Point]:
        """Return the points without a trial that may fit in memory."""
        return free_points(self.search, self._records(trials))

    def stop_reason(self, trials: Sequence[FrozenTrial]) -> str | None:
        """Return why no better point is likely, or None."""
        return stop_reason(self.search, self._records(trials)) if self.ends_early else None

    def should_prune(
        self, trials: Sequence[FrozenTrial], point: Point, curve: Sequence[CurvePoint], billable_instance_seconds: float
    ) -> str | None:
        """Return why a running trial can no longer win, or None."""
        if not self.prunes:
            return None
        return pruning.should_prune(self.search, self._records(trials), point, curve, billable_instance_seconds)

    def _records(self, trials: Sequence[FrozenTrial]) -> tuple[Record, ...]:
        return records(trials, self.search.space, self._known)
