"""Target of a training, and the best value of a metric so far. Pure."""

import math
from dataclasses import dataclass, field
from typing import Dict, Mapping, Optional

from training.job.reporting.errors import ArgumentError


def direction_of(metric: str) -> str:
    """Return `min` for a metric whose lower values are better, else `max`."""
    return "min" if metric.endswith(("loss", "perplexity")) else "max"


@dataclass
class Target:
    """A metric's target value, and when the training first reached it."""

    metric: str
    """Name in Trainer's log, such as `eval_accuracy`."""
    value: float
    """Value to reach."""
    direction: Optional[str] = None
    """min | max; None means min for losses and perplexity, and max for all others."""
    seconds: Optional[float] = None
    """Seconds from the start of the job's process until the target was reached; None before."""
    samples: Optional[int] = None
    """Training samples seen until the target was reached; None before."""
    stops: bool = field(default=False, compare=False)
    """True if the training ends when it reaches the target."""

    @property
    def ends_training(self) -> bool:
        """True if the target was reached and the training therefore ends."""
        return self.stops and self.seconds is not None

    def observe(self, values: Mapping[str, float], seconds: float, samples: int) -> None:
        """Record logged values. Only the first value that reaches the target counts."""
        if self.seconds is None and self.metric in values and self._reached_by(values[self.metric]):
            self.seconds, self.samples = seconds, samples

    def metrics(self) -> Dict[str, float]:
        """Return `target/reached`, and if it is 1, the seconds and samples until then."""
        if self.seconds is None or self.samples is None:
            return {"target/reached": 0}
        return {"target/reached": 1, "target/seconds": self.seconds, "target/samples": self.samples}

    def _reached_by(self, value: float) -> bool:
        direction = self.direction or direction_of(self.metric)
        return value <= self.value if direction == "min" else value >= self.value


@dataclass
class BestEvaluation:
    """The step with the best value of a metric; of several equal values, the first."""

    metric: str
    """Name in Trainer's log, such as `eval_f1_macro`."""
    step: Optional[int] = None
    """Optimizer steps before that evaluation; None before the first evaluation."""
    value: Optional[float] = None
    """Best value of the metric so far."""

    def observe(self, values: Mapping[str, float], step: int) -> None:
        """Record an evaluation. Raises `ArgumentError` when it does not report the metric."""
        if self.metric not in values:
            known = ", ".join(sorted(name for name in values if name.startswith("eval_")))
            raise ArgumentError(f"best_metric is {self.metric!r}, but an evaluation of this task reports only {known}")
        if not math.isnan(values[self.metric]) and self._is_better(values[self.metric]):
            self.step, self.value = step, values[self.metric]

    def metrics(self) -> Dict[str, float]:
        """Return `best/step`; empty if the metric was NaN in every evaluation."""
        return {} if self.step is None else {"best/step": self.step}

    def _is_better(self, value: float) -> bool:
        if self.value is None:
            return True
        return value < self.value if direction_of(self.metric) == "min" else value > self.value
