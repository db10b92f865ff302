"""Time the phases of a training and its steady throughput. Pure: the clock is passed in.

Steady throughput is the work between the end of the warm-up steps and the end of the last step, divided by the wall
time between these two instants. The device is idle at both. The time includes data loading and excludes evaluations and
checkpoints. It needs at least two steps after the warm-up.
"""

from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import numpy as np

from data.padding import NO_WORK, Work

MIN_STEADY_STEPS = 2


@dataclass(frozen=True)
class Instant:
    """State of a training at a moment when the device was idle."""

    seconds: float
    """Clock time."""
    paused_seconds: float
    """Seconds of evaluations and checkpoints since the first step."""
    work: Work
    """Work of this process since the start of the job."""


@dataclass(frozen=True)
class Steady:
    """The part of a training after its warm-up."""

    seconds: float
    """Wall time without evaluations and checkpoints."""
    work: Work
    """Work of this process during `seconds`."""
    steps: int
    """Optimizer steps during `seconds`."""
    step_seconds: Tuple[float, float, float]
    """Quartiles of the step time: p25, p50, p75."""


class Meter:
    """Stopwatch for the phases and steps of a training.

    Calls `on_phase` with the name and seconds of each phase that ends.
    """

    def __init__(self, clock: Any, warmup_steps: int, on_phase: Callable[[str, float], None] = lambda *_: None) -> None:
        self.phase_seconds: Dict[str, float] = {}
        self.work = NO_WORK
        self._clock, self._warmup_steps, self._on_phase = clock, warmup_steps, on_phase
        self._paused_seconds = 0.0
        self._first_step_start: Optional[Instant] = None
        self._warmup_end: Optional[Instant] = None
        self._last_step_end: Optional[Instant] = None
        self._step_start: Any = None
        self._spans: List[Tuple[Any, Any]] = []
        self._step_seconds: List[float] = []

    def add_phase(self, name: str, seconds: float) -> None:
        """Add seconds to a phase and pass them to `on_phase`."""
        self.phase_seconds[name] = self.phase_seconds.get(name, 0.0) + seconds
        self._on_phase(name, seconds)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time a phase. Step times and throughput exclude it."""
        start = self._clock.now()
        yield
        seconds = self._clock.now() - start
        self._paused_seconds += seconds
        self._step_start = self._clock.mark()
        self.add_phase(name, seconds)

    def begin_steps(self) -> None:
        """Mark the start of the first step."""
        self._first_step_start = self._instant()
        self._step_start = self._clock.mark()

    def add_work(self, work: Work) -> None:
        """Count a processed batch towards this process's total work."""
        self.work = self.work.plus(work)

    def end_step(self) -> None:
        """Mark the end of an optimizer step."""
        end = self._clock.mark()
        self._spans.append((self._step_start, end))
        self._step_start = end
        if len(self._spans) + len(self._step_seconds) == self._warmup_steps:
            self._warmup_end = self._instant()

    def end_steps(self) -> None:
        """Mark the end of the last step and add the phases `warmup` and `train_steady`. Only the first call counts."""
        if self._last_step_end is not None or self._first_step_start is None:
            return
        self._last_step_end = self._instant()
        warm = self._warmup_end or self._last_step_end
        self.add_phase("warmup", _unpaused_seconds(self._first_step_start, warm))
        if warm is not self._last_step_end:
            self.add_phase("train_steady", _unpaused_seconds(warm, self._last_step_end))

    def step_seconds(self) -> List[float]:
        """Return the seconds of every step so far, in order. Waits for the device to finish the last step."""
        self._step_seconds += [self._clock.seconds_between(*span) for span in self._spans]
        self._spans = []
        return self._step_seconds

    def steady(self) -> Optional[Steady]:
        """Return the steady part of the training, or None if it has too few steps."""
        seconds = self.step_seconds()[self._warmup_steps :]
        if self._warmup_end is None or self._last_step_end is None or len(seconds) < MIN_STEADY_STEPS:
            return None
        work = Work(*(end - start for end, start in zip(self._last_step_end.work, self._warmup_end.work)))
        p25, p50, p75 = (float(np.percentile(seconds, at)) for at in (25, 50, 75))
        return Steady(_unpaused_seconds(self._warmup_end, self._last_step_end), work, len(seconds), (p25, p50, p75))

    def _instant(self) -> Instant:
        return Instant(self._clock.now(), self._paused_seconds, self.work)


def _unpaused_seconds(start: Instant, end: Instant) -> float:
    return end.seconds - start.seconds - (end.paused_seconds - start.paused_seconds)
