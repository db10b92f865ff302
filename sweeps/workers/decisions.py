"""Decisions about a study, from Optuna's trials to points and sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sweeps.cost_model import pruning
from sweeps.cost_model.expected_improvement import stop_reason
from sweeps.cost_model.trials import Record, Search, free_points, records
from sweeps.space.grid import Point
from sweeps.space.objective import CurvePoint

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial


@dataclass(frozen=True, kw_only=True)
class Decisions:
    """Implementation of `sweeps.workers.strategy.Strategy` by the cost model."""

    search: Search
    prunes: bool = True
    """True if trials that cannot win any more are stopped."""
    ends_early: bool = True
    """True if the study ends when no free point is expected to save enough; False for samplers that are compared."""
    _known: dict[int, Record] = field(default_factory=dict)

    def free_points(self, trials: Sequence[FrozenTrial]) -> Sequence[Point]:
        """Return the points without a trial that may fit the memory."""
        return free_points(self.search, self._records(trials))

    def stop_reason(self, trials: Sequence[FrozenTrial]) -> str | None:
        """Return the sentence why no free point is worth its cost, or None."""
        return stop_reason(self.search, self._records(trials)) if self.ends_early else None

    def should_prune(
        self, trials: Sequence[FrozenTrial], point: Point, curve: Sequence[CurvePoint], billable_instance_seconds: float
    ) -> str | None:
        """Return the sentence why a running trial cannot win any more, or None."""
        if not self.prunes:
            return None
        return pruning.should_prune(self.search, self._records(trials), point, curve, billable_instance_seconds)

    def _records(self, trials: Sequence[FrozenTrial]) -> tuple[Record, ...]:
        return records(trials, self.search.space, self._known)
