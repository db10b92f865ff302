"""The seam between the loop that runs trials and what decides on them: where to stop, and whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from sweeps.objective import CurvePoint
from sweeps.space import Point, Space

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial


class Strategy(Protocol):
    """What one study's search decides beside its sampler. `trials` are those that stand for a point."""

    def free_points(self, trials: Sequence[FrozenTrial]) -> Sequence[Point]:
        """Return the points that are left to try."""

    def nothing_left(self, trials: Sequence[FrozenTrial]) -> str | None:
        """Return the sentence why no point left is worth its price, else None."""

    def hopeless(
        self, trials: Sequence[FrozenTrial], point: Point, curve: Sequence[CurvePoint], billable_seconds: float
    ) -> str | None:
        """Return the sentence why a running trial cannot win any more, else None."""


class EveryPoint:
    """Every point that fits is worth its price, and none is stopped."""

    def __init__(self, space: Space) -> None:
        self._space = space

    def free_points(self, trials: Sequence[FrozenTrial]) -> Sequence[Point]:
        """Return those that no trial has, below any batch size that ran out of memory."""
        from sweeps.study import point_of

        taken = {point_of(trial, self._space) for trial in trials}
        failed = [point_of(trial, self._space) for trial in trials if trial.user_attrs.get("end") == OUT_OF_MEMORY]
        too_large = min((point.batch_size for point in failed if point), default=None)
        points = (point for point in self._space.points if point not in taken)
        return [point for point in points if too_large is None or point.batch_size < too_large]

    def nothing_left(self, trials: Sequence[FrozenTrial]) -> str | None:
        """Return None."""
        return None

    def hopeless(
        self, trials: Sequence[FrozenTrial], point: Point, curve: Sequence[CurvePoint], billable_seconds: float
    ) -> str | None:
        """Return None."""
        return None


OUT_OF_MEMORY = "failed: OutOfMemory"
"""`end` of a trial whose batch did not fit."""
