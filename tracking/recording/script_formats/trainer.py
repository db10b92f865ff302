"""Steps of Transformers' Trainer, whose log dicts contain the epoch but not the step.

In order of precedence: the block that Trainer announces at log level `info`; else its progress bar, whose state after a
dict is the exact step of that dict. Once a step and its epoch are known, later dicts follow from their epochs.
"""

from __future__ import annotations

import math

from tracking.recording.script_formats.announcement import Announcement
from tracking.recording.script_formats.tqdm_bars import Bar, bar_of

_DIGITS = 4
"""Significant digits of the epoch in a dict. Before version 5, Trainer rounds it to two decimals."""


class TrainerSteps:
    """Converter from epochs to steps. Pass every part of the log to `read`."""

    def __init__(self, announcement: Announcement) -> None:
        self._announcement = announcement
        self._total: int | None = None
        """Steps of the training's bar."""
        self._known: tuple[int, float] | None = None
        """Step and epoch of the last dict whose step the bar has shown."""
        self._awaited: float | None = None
        """Epoch of a training dict whose step the next state of the bar shows."""
        self._shown: Bar | None = None
        """Last state of the first bar, which is the training's: bars of evaluations begin later."""

    def watch(self, part: str) -> None:
        """Remember the state of the training's bar, for a training that logs no loss."""
        bar = bar_of(part)
        if bar and not bar.description and bar.total == (self._shown.total if self._shown else bar.total):
            self._shown = bar

    def read(self, part: str) -> int | None:
        """Read a part that is not a dict. Return the step of the last dict if the part shows it."""
        bar = bar_of(part) if self._awaited is not None else None
        if bar is None or bar.description or bar.total != (self._total or bar.total):
            return None
        assert self._awaited is not None
        if self._awaited > 0 and bar.n:
            self._known = bar.n, self._awaited
        self._total, self._awaited = bar.total, None
        return bar.n

    def expect(self, epoch: float) -> None:
        """Take the next state of the bar for the step of a training dict at this epoch."""
        self._awaited = epoch

    def step_at(self, epoch: float) -> int | None:
        """Return the step of an epoch; None if it is not certain."""
        if self._announcement.steps_per_epoch:
            return self._announcement.step_at(epoch)
        if self._known and epoch == self._known[1]:
            return self._known[0]
        exact = self._exact_steps_per_epoch()
        return round(epoch * exact) if exact and _error(epoch) * exact < 0.5 else None

    def estimate_at(self, epoch: float) -> int | None:
        """Return the step of an epoch, rounded as the epoch is; None if no step is known."""
        if (step := self.step_at(epoch)) is not None:
            return step
        if not self._known:
            return self._shown_at(epoch)
        step_known, epoch_known = self._known
        return min(max(step_known, round(epoch * step_known / epoch_known)), self._total or step_known)

    @property
    def last_step(self) -> int | None:
        """Step of the summary."""
        return self._announcement.total_steps or self._total or (self._shown.total if self._shown else None)

    def restart(self) -> None:
        """Forget a training that has ended: another one follows in the same log."""
        self._total = self._known = self._awaited = self._shown = None

    def _shown_at(self, epoch: float) -> int | None:
        """Return the step that the bar shows at an epoch. It may be drawn one step late."""
        if self._shown is None or self._shown.n == 0 or epoch <= 0:
            return None
        bar, epochs = self._shown, max(1, round(self._shown.total * epoch / self._shown.n))
        step = round(epoch * bar.total / epochs)
        return step if bar.total % epochs == 0 and step == bar.n + 1 else bar.n

    def _exact_steps_per_epoch(self) -> float | None:
        """Return the steps of one epoch, if they divide all steps. They do not if the script limits the steps."""
        if not self._known or not self._total:
            return None
        step, epoch = self._known
        epochs = max(1, round(self._total * epoch / step))
        exact = self._total / epochs
        return exact if self._total % epochs == 0 and abs(exact * epoch - step) <= _error(epoch) * exact else None


def _error(epoch: float) -> float:
    """Return the largest rounding error of an epoch."""
    return 0.5 * 10.0 ** (math.floor(math.log10(epoch)) + 1 - _DIGITS) if 0 < epoch < math.inf else 0.0
