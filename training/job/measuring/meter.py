"""Where the seconds of a training go, and how fast it is once it has settled. Pure: the clock is passed in.

Steady throughput is the work finished between the end of the warm-up steps and the end of the last step, over the
wall time between these two instants, at both of which the device has been waited for. Loading of data counts;
evaluation and checkpoints in between do not. It is absent when fewer than two steps are steady.
"""

from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import numpy as np

from data.padding import NO_WORK, Work

LEAST_STEADY_STEPS = 2


@dataclass(frozen=True)
class Instant:
    """The state of a training at a moment when the device had nothing left to do."""

    seconds: float
    """The clock's."""
    paused_seconds: float
    """Spent so far in evaluation and checkpoints since the first step."""
    work: Work
    """Done so far by this process."""


@dataclass(frozen=True)
class Steady:
    """The training after its warm-up."""

    seconds: float
    """Wall time, without evaluation and checkpoints."""
    work: Work
    """Done in this time by this process."""
    steps: int
    """Optimizer steps in this time."""
    step_seconds: Tuple[float, float, float]
    """Quartiles of a step's time: p25, p50, p75."""


class Meter:
    """Told what happens; tells how long it took."""

    def __init__(self, clock: Any, warmup_steps: int, told: Callable[[str, float], None] = lambda *_: None) -> None:
        self.phase_seconds: Dict[str, float] = {}
        self.work = NO_WORK
        self._clock, self._warmup_steps, self._told = clock, warmup_steps, told
        self._paused_seconds = 0.0
        self._begun: Optional[Instant] = None
        self._warm: Optional[Instant] = None
        self._done: Optional[Instant] = None
        self._step_start: Any = None
        self._spans: List[Tuple[Any, Any]] = []
        self._step_seconds: List[float] = []

    def add_phase(self, name: str, seconds: float) -> None:
        """Add seconds to a phase and tell of them."""
        self.phase_seconds[name] = self.phase_seconds.get(name, 0.0) + seconds
        self._told(name, seconds)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time a phase. Inside the training it is a pause: no step's time and no throughput includes it."""
        start = self._clock.now()
        yield
        seconds = self._clock.now() - start
        self._paused_seconds += seconds
        self._step_start = self._clock.mark()
        self.add_phase(name, seconds)

    def begin_steps(self) -> None:
        """Say that the first step comes next."""
        self._begun = self._instant()
        self._step_start = self._clock.mark()

    def add_work(self, work: Work) -> None:
        """Say that this process takes a batch."""
        self.work = self.work.plus(work)

    def end_step(self) -> None:
        """Say that an optimizer step ends."""
        end = self._clock.mark()
        self._spans.append((self._step_start, end))
        self._step_start = end
        if len(self._spans) + len(self._step_seconds) == self._warmup_steps:
            self._warm = self._instant()

    def end_steps(self) -> None:
        """Say that the last step has ended; adds the phases `warmup` and `train_steady`. Only the first call counts."""
        if self._done is not None or self._begun is None:
            return
        self._done = self._instant()
        warm = self._warm or self._done
        self.add_phase("warmup", _between(self._begun, warm))
        if warm is not self._done:
            self.add_phase("train_steady", _between(warm, self._done))

    def step_seconds(self) -> List[float]:
        """Return the seconds of every step so far, in order; waits for the device to reach the last."""
        self._step_seconds += [self._clock.seconds_between(*span) for span in self._spans]
        self._spans = []
        return self._step_seconds

    def steady(self) -> Optional[Steady]:
        """Return how fast the training was after its warm-up, or None where too few steps tell."""
        seconds = self.step_seconds()[self._warmup_steps :]
        if self._warm is None or self._done is None or len(seconds) < LEAST_STEADY_STEPS:
            return None
        work = Work(*(end - start for end, start in zip(self._done.work, self._warm.work)))
        p25, p50, p75 = (float(np.percentile(seconds, at)) for at in (25, 50, 75))
        return Steady(_between(self._warm, self._done), work, len(seconds), (p25, p50, p75))

    def _instant(self) -> Instant:
        return Instant(self._clock.now(), self._paused_seconds, self.work)


def _between(start: Instant, end: Instant) -> float:
    return end.seconds - start.seconds - (end.paused_seconds - start.paused_seconds)
