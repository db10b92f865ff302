"""When a training reached what it was meant to reach. Pure."""

from dataclasses import dataclass, field
from typing import Dict, Mapping, Optional


def direction_of(metric: str) -> str:
    """Return min for a metric whose lower values are better, else max."""
    return "min" if metric.endswith(("loss", "perplexity")) else "max"


@dataclass
class Target:
    """A metric's value to reach, and when it was first reached."""

    metric: str
    """Name as Trainer logs it, such as `eval_accuracy`."""
    value: float
    """Value to reach."""
    direction: Optional[str] = None
    """min | max; None takes min for losses and perplexity, and max for others."""
    seconds: Optional[float] = None
    """From the start of the job's process to the moment when it was reached."""
    samples: Optional[int] = None
    """Seen until then."""
    stops: bool = field(default=False, compare=False)
    """Whether the training ends with it."""

    @property
    def is_end(self) -> bool:
        """Whether it was reached, and nothing is left to train."""
        return self.stops and self.seconds is not None

    def observe(self, values: Mapping[str, float], seconds: float, samples: int) -> None:
        """Take note of logged values; the first that reaches the target counts."""
        if self.seconds is None and self.metric in values and self._reached_by(values[self.metric]):
            self.seconds, self.samples = seconds, samples

    def metrics(self) -> Dict[str, float]:
        """Return `target/reached`, and when, if it was."""
        if self.seconds is None or self.samples is None:
            return {"target/reached": 0}
        return {"target/reached": 1, "target/seconds": self.seconds, "target/samples": self.samples}

    def _reached_by(self, value: float) -> bool:
        direction = self.direction or direction_of(self.metric)
        return value <= self.value if direction == "min" else value >= self.value
