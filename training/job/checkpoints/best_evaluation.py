"""The best evaluation of a training. Pure."""

import math
from dataclasses import dataclass
from typing import Dict, Mapping, Optional

from checkpoints.target import direction_of
from reporting.errors import ArgumentError


@dataclass
class Best:
    """Which step evaluated best; the first of equals."""

    metric: str
    """Name as Trainer logs it, such as `eval_f1_macro`."""
    step: Optional[int] = None
    """Optimizer steps until then."""
    value: Optional[float] = None
    """The metric's."""

    def observe(self, values: Mapping[str, float], step: int) -> None:
        """Take note of an evaluation. Raises `ArgumentError` when it does not tell the metric."""
        if self.metric not in values:
            known = ", ".join(sorted(name for name in values if name.startswith("eval_")))
            raise ArgumentError(f"best_metric is {self.metric!r}, but an evaluation of this task tells {known}")
        if not math.isnan(values[self.metric]) and self._is_better(values[self.metric]):
            self.step, self.value = step, values[self.metric]

    def metrics(self) -> Dict[str, float]:
        """Return `best/step`, if any evaluation told a number."""
        return {} if self.step is None else {"best/step": self.step}

    def _is_better(self, value: float) -> bool:
        if self.value is None:
            return True
        return value < self.value if direction_of(self.metric) == "min" else value > self.value
