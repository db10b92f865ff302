"""The block that Trainer and accelerate's examples log before the first step.

***** Running training *****
  Num examples = 100
  Num Epochs = 2
  Total train batch size (w. parallel, distributed & accumulation) = 16
  Gradient Accumulation steps = 2
  Total optimization steps = 14
"""

from __future__ import annotations

import math
import re

from tracking.recording.script_formats.reading import integer

_START = "***** Running training *****"
_FACTS = {
    "examples": re.compile(r"  Num examples = ([\d,]{1,20})$"),
    "batch_size": re.compile(r"  Total train batch size \(w\. parallel, distributed & accumulation\) = ([\d,]{1,20})$"),
    "accumulation": re.compile(r"  Gradient Accumulation steps = ([\d,]{1,20})$"),
    "total_steps": re.compile(r"  Total optimization steps = ([\d,]{1,20})$"),
}
_LAST = "total_steps"


class Announcement:
    """Facts that the log announced about the training. A later block, of a second training, replaces the first."""

    def __init__(self) -> None:
        self._facts: dict[str, int] = {}
        self._is_open = False

    def read(self, part: str) -> None:
        """Read one part of a line."""
        if _START in part:
            self._facts, self._is_open = {}, True
        elif self._is_open:
            for name, pattern in _FACTS.items():
                if match := pattern.search(part):
                    self._facts[name] = integer(match[1])
                    self._is_open = name != _LAST

    @property
    def total_steps(self) -> int | None:
        """Updates of the whole training."""
        return None if self._is_open else self._facts.get("total_steps") or None

    @property
    def batch_size(self) -> int | None:
        """Samples of one update, over all devices."""
        return None if self._is_open else self._facts.get("batch_size") or None

    @property
    def steps_per_epoch(self) -> int | None:
        """Updates of one epoch."""
        if not self.batch_size or not self._facts.get("examples"):
            return None
        return math.ceil(self._facts["examples"] / self.batch_size)

    def step_at(self, epoch: float) -> int | None:
        """Return the step at which Trainer logged this epoch.

        Trainer's epoch is the share of the data loader's batches. The last update of an epoch may have fewer of them.
        """
        per_epoch = self.steps_per_epoch
        if per_epoch is None or not math.isfinite(epoch) or not 0 <= epoch < 2**40:
            return None
        whole, share = int(epoch), epoch - int(epoch)
        accumulation = max(1, self._facts.get("accumulation", 1))
        batches = math.ceil(self._facts["examples"] * accumulation / (self.batch_size or 1))
        return whole * per_epoch + min(per_epoch, round(share * batches / accumulation))

    def samples_after(self, steps: int) -> int | None:
        """Return the samples of the first `steps` updates. The last batch of an epoch may be smaller."""
        per_epoch, batch_size = self.steps_per_epoch, self.batch_size
        if per_epoch is None or batch_size is None:
            return None
        epochs, rest = divmod(steps, per_epoch)
        return epochs * self._facts["examples"] + min(rest * batch_size, self._facts["examples"])
