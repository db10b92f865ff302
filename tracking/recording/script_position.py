"""Position of a user's script in its training, from the formats that its log is written in. Pure."""

from __future__ import annotations

from dataclasses import replace

from tracking.groups.planned_job import BatchSizes
from tracking.recording.script_formats.announcement import Announcement
from tracking.recording.script_formats.formats import LogFormats
from tracking.recording.script_formats.reading import Reading, Unit
from tracking.recording.script_formats.tqdm_bars import split_after_bar
from tracking.recording.script_formats.trainer import TrainerSteps
from tracking.recording.script_rates import SteadyRate


class ScriptPosition:
    """Steps and samples so far. Pass every part of the log to `read`."""

    def __init__(self, batch: BatchSizes | None) -> None:
        self._batch = batch
        self.announcement = Announcement()
        self.trainer = TrainerSteps(self.announcement)
        self.formats = LogFormats(self.announcement)
        self.rate = SteadyRate()
        self.is_trainer = False
        """True if Trainer's dicts give the steps."""
        self._epochs = 0

    def read(self, part: str, time: float) -> Reading | None:
        """Read a part that is not one of Trainer's dicts. Return its content, or None."""
        self.announcement.read(part)
        self.trainer.watch(part)
        if self.is_trainer:
            return None
        bar, text = split_after_bar(part)
        first, second = self._read(bar, time), self._read(text, time) if text else None
        if first is None or second is None:
            return first or second
        return replace(first, values={**first.values, **second.values}, is_due=True)

    def _read(self, part: str, time: float) -> Reading | None:
        reading = self.formats.read(part)
        if reading is None:
            return None
        if reading.is_evaluation:
            self.rate.add_evaluation(None)
        elif reading.step is not None and reading.bar_seconds is None:
            self.rate.add_steps(reading.done, time)
        elif reading.step is not None:
            self.rate.add_steps(reading.done, float(reading.bar_seconds or 0), reading.bar)
        self._epochs = max(self._epochs, reading.epochs)
        return reading

    def begin_trainer(self) -> None:
        """Take all further steps from Trainer's dicts. Its bars are no longer those of an unknown script."""
        self.is_trainer, self.rate = True, SteadyRate()

    def samples_after(self, steps: int) -> int | None:
        """Return the samples of so many steps, each with a whole batch unless the log shows how many rows there are."""
        if (samples := self.announcement.samples_after(steps)) is not None:
            return samples
        per_step = self._samples_per_step()
        return steps * per_step if per_step else None

    def fewest_samples_after(self, steps: int) -> int | None:
        """Return the samples of so many steps if the last batch of each epoch has a single sample."""
        samples, per_step = self.samples_after(steps), self._samples_per_step()
        if samples is None or per_step is None or self.announcement.samples_after(steps) is not None:
            return samples
        return max(0, samples - self._epochs * (per_step - 1))

    def _samples_per_step(self) -> int | None:
        source = self.formats.source
        if self.formats.is_ambiguous or self.is_trainer or source is None:
            return None
        if self.announcement.batch_size:
            return self.announcement.batch_size
        if (logged := source.logged_batch_size) is not None:
            return logged
        return samples_per_step(self._batch, source.unit) if self._batch else None


def samples_per_step(batch: BatchSizes, unit: Unit) -> int | None:
    """Return the samples of one step of a log; None if it is not certain what a step is."""
    if batch.per_update == batch.per_batch or unit == "update":
        return batch.per_update
    return batch.per_batch if unit == "batch" else None
