"""The seam between the loop that runs trials and what decides on them: where to stop, and whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from sweeps.space.grid import Point
from sweeps.space.objective import CurvePoint

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial


class Strategy(Protocol):
    """What one study's search decides beside its sampler. `trials` are those that stand for a point."""

    def free_points(self, trials: Sequence[FrozenTrial]) -> Sequence[Point]:
        """Return the points that are left to try."""

    def nothing_left(self, trials: Sequence[FrozenTrial]) -> str | None:
        """Return the sentence why no point left is worth its price, else None."""

    def hopeless(
        self, trials: Sequence[FrozenTrial], point: Point, curve: Sequence[CurvePoint], billable_instance_seconds: float
    ) -> str | None:
        """Return the sentence why a running trial cannot win any more, else None."""
