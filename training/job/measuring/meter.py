"""Time the phases of a training and its steady throughput. Pure: the clock is passed in.

Steady throughput is the work finished between the end of the warm-up steps and the end of the last step, divided by the
wall time between these two instants. The device is idle at both. Data loading counts; evaluations and checkpoints in
between do not. With fewer than two steady steps, there is no steady throughput.
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
    """Time of the clock."""
    paused_seconds: float
    """Seconds of evaluations and checkpoints since the first step."""
    work: Work
    """Work that this process has done so far."""


@dataclass(frozen=True)
class Steady:
    """The part of a training after its warm-up."""

    seconds: float
    """Wall time without evaluations and checkpoints."""
    work: Work
    """Work of this process in this time."""
    steps: int
    """Optimizer steps in this time."""
    step_seconds: Tuple[float, float, float]
    """Quartiles of the step time: p25, p50, p75."""


class Meter:
    """Records the events of a training and returns how long they took.

    `on_phase` is called with each phase and its seconds.
    """

    def __init__(self, clock: Any, warmup_steps: int, on_phase: Callable[[str, float], None] = lambda *_: None) -> None:
        self.phase_seconds: Dict[str, float] = {}
        self.work = NO_WORK
        self._clock, self._warmup_steps, self._on_phase = clock, warmup_steps, on_phase
        self._paused_seconds = 0.0
        self._begun: Optional[Instant] = None
        self._warm: Optional[Instant] = None
        self._done: Optional[Instant] = None
        self._step_start: Any = None
        self._spans: List[Tuple[Any, Any]] = []
        self._step_seconds: List[float] = []

    def add_phase(self, name: str, seconds: float) -> None:
        """Add seconds to a phase and report them."""
        self.phase_seconds[name] = self.phase_seconds.get(name, 0.0) + seconds
        self._on_phase(name, seconds)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time a phase. A phase during the training is excluded from step times and throughput."""
        start = self._clock.now()
        yield
        seconds = self._clock.now() - start
        self._paused_seconds += seconds
        self._step_start = self._clock.mark()
        self.add_phase(name, seconds)

    def begin_steps(self) -> None:
        """Mark the start of the first step."""
        self._begun = self._instant()
        self._step_start = self._clock.mark()

    def add_work(self, work: Work) -> None:
        """Add a batch to this process's work."""
        self.work = self.work.plus(work)

    def end_step(self) -> None:
        """Mark the end of an optimizer step."""
        end = self._clock.mark()
        self._spans.append((self._step_start, end))
        self._step_start = end
        if len(self._spans) + len(self._step_seconds) == self._warmup_steps:
            self._warm = self._instant()

    def end_steps(self) -> None:
        """Mark the end of the last step and add the phases `warmup` and `train_steady`. Only the first call counts."""
        if self._done is not None or self._begun is None:
            return
        self._done = self._instant()
        warm = self._warm or self._done
        self.add_phase("warmup", _between(self._begun, warm))
        if warm is not self._done:
            self.add_phase("train_steady", _between(warm, self._done))

    def step_seconds(self) -> List[float]:
        """Return the seconds of every step so far, in order. Waits for the device to finish the last."""
        self._step_seconds += [self._clock.seconds_between(*span) for span in self._spans]
        self._spans = []
        return self._step_seconds

    def steady(self) -> Optional[Steady]:
        """Return the steady part of the training, or None if it has too few steps."""
        seconds = self.step_seconds()[self._warmup_steps :]
        if self._warm is None or self._done is None or len(seconds) < MIN_STEADY_STEPS:
            return None
        work = Work(*(end - start for end, start in zip(self._done.work, self._warm.work)))
        p25, p50, p75 = (float(np.percentile(seconds, at)) for at in (25, 50, 75))
        return Steady(_between(self._warm, self._done), work, len(seconds), (p25, p50, p75))

    def _instant(self) -> Instant:
        return Instant(self._clock.now(), self._paused_seconds, self.work)


def _between(start: Instant, end: Instant) -> float:
    return end.seconds - start.seconds - (end.paused_seconds - start.paused_seconds)
