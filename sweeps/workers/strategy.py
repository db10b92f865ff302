"""Protocol between the loop that runs trials and the search that decides when to stop and what to prune."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from sweeps.space.grid import Point
from sweeps.space.objective import CurvePoint

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial


class Strategy(Protocol):
    """Decisions about one study, except the sampler's choice. `trials` come from `study.current_trials`."""

    def free_points(self, trials: Sequence[FrozenTrial]) -> Sequence[Point]:
        """Return the points that can still be tried."""

    def stop_reason(self, trials: Sequence[FrozenTrial]) -> str | None:
        """Return why no better point is likely, or None."""

    def should_prune(
        self, trials: Sequence[FrozenTrial], point: Point, curve: Sequence[CurvePoint], billable_instance_seconds: float
    ) -> str | None:
        """Return why a running trial can no longer win, or None."""
