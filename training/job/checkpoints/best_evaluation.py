"""The best evaluation of a training. Pure."""

import math
from dataclasses import dataclass
from typing import Dict, Mapping, Optional

from checkpoints.target import direction_of
from reporting.errors import ArgumentError


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
