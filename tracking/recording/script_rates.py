"""Steady rate of a user's script, measured at the times of the lines that show its steps. Pure.

The first tenth of the steps is left out: it contains the start of the data loaders, compilation and warm-up. An
evaluation whose duration is known is subtracted. Otherwise the interval between the two lines around it is left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

LINE_RESOLUTION_SECONDS = 0.2
"""Uncertainty of a line's time: the local service marks a log that has grown this often."""
BAR_RESOLUTION_SECONDS = 1.0
"""Progress bars display whole seconds."""
_WARM_UP_SHARE = 0.1
_LEAST_TICKS = 10
"""Least duration of a measurement in units of its resolution: an error of at most a tenth."""


@dataclass(frozen=True, kw_only=True)
class _Mark:
    """A step and the time at which the log showed it."""

    time: float
    steps: int
    clock: int | None
    """Number of the progress bar that displayed the time; None for the time of a line."""
    eval_seconds: float | None
    """Duration of the evaluations since the previous mark; None if one ran and its duration is not known."""


class SteadyRate:
    """Meter of a training's steps, or of its samples."""

    def __init__(self) -> None:
        self._marks: list[_Mark] = []
        self._eval_seconds: float | None = 0.0

    def add_evaluation(self, seconds: float | None) -> None:
        """Note that an evaluation ran since the last step; None if its duration is not known."""
        known = self._eval_seconds is not None and seconds is not None
        self._eval_seconds = (self._eval_seconds or 0.0) + (seconds or 0.0) if known else None

    def add_steps(self, steps: int, time: float, clock: int | None = None) -> None:
        """Note that so many steps had ended at this time."""
        if self._marks and steps <= self._marks[-1].steps:
            return
        self._marks.append(_Mark(time=time, steps=steps, clock=clock, eval_seconds=self._eval_seconds))
        self._eval_seconds = 0.0

    def per_second(self) -> float | None:
        """Return the steady rate; None if too few lines, over too short a time, show it."""
        steps, seconds, least_seconds = 0, 0.0, 0.0
        is_joined = False
        for before, after in pairwise(self._after_warm_up()):
            if not self._is_measured(before, after):
                is_joined = False
                continue
            resolution = LINE_RESOLUTION_SECONDS if after.clock is None else BAR_RESOLUTION_SECONDS
            least_seconds += 0.0 if is_joined else _LEAST_TICKS * resolution
            is_joined = True
            steps += after.steps - before.steps
            seconds += after.time - before.time - (after.eval_seconds or 0.0)
        enough = steps > 0 and seconds > 0 and math.isfinite(seconds) and seconds >= least_seconds
        return steps / seconds if enough else None

    @property
    def has_steps(self) -> bool:
        """True if any line showed a step."""
        return bool(self._marks)

    def _after_warm_up(self) -> list[_Mark]:
        if not self._marks:
            return []
        # The steps before the first line with a finished step, the slowest of all, are never counted.
        warm = max(1, _WARM_UP_SHARE * self._marks[-1].steps)
        return [mark for mark in self._marks if mark.steps >= warm]

    @staticmethod
    def _is_measured(before: _Mark, after: _Mark) -> bool:
        return before.clock == after.clock and after.eval_seconds is not None and after.time >= before.time
