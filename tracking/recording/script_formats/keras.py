"""Keras' progress lines, of versions 2 and 3.

An epoch begins with `Epoch 1/3`. Then come lines such as `938/938 [=====] - 3s 3ms/step - loss: 0.2 - val_loss: 0.1`,
or `938/938 - 3s - loss: 0.2` with `verbose=2`. A line that does not continue the epoch's count is that of `evaluate`.
"""

from __future__ import annotations

import re

from tracking.recording.script_formats.reading import NUMBER, Reading, Unit, plain, standard_name

_EPOCH = re.compile(r"^Epoch (\d+)/(\d+)\s*$")
_LINE = re.compile(r"^\s*(\d+)/(\d+) (?:\[[=>.]+\] - |[━╸╺ ]+|- )(?:ETA: )?(?:\d+s|\d+:\d\d)\b")
_VALUE = re.compile(rf" - (?!ETA:)([A-Za-z_]\w{{0,80}}): ({NUMBER})")


class Keras:
    """Reader of these lines."""

    unit: Unit = "batch"
    logged_batch_size = None

    def __init__(self) -> None:
        self._epoch = 0
        """The current epoch, from 1; 0 before the first."""
        self._total: int | None = None
        """Batches of an epoch."""
        self._batch = 0
        """Last batch of the current epoch."""
        self._recorded: tuple[int, int] | None = None
        """Epoch and share of the epoch, in percent, of the last values."""

    def read(self, part: str) -> Reading | None:
        """Return the content of a line; None for other lines. Values come at most once per percent of an epoch."""
        text = plain(part)
        if match := _EPOCH.match(text):
            self._epoch, self._batch = int(match[1]), 0
            return None
        match = _LINE.match(text)
        if match is None or not self._epoch or not 0 < int(match[2]) < 2**40:
            return None
        batch, total = int(match[1]), int(match[2])
        values = {standard_name(name): float(number) for name, number in _VALUE.findall(text)}
        self._total = self._total or total
        if total != self._total or batch < self._batch:
            return self._evaluated(values, is_last=batch == total)
        self._batch = batch
        has_evaluation = any(name.startswith("eval_") for name in values)
        share = (self._epoch, 100 * batch // total)
        is_due = share != self._recorded or has_evaluation
        self._recorded = share
        return Reading(
            values=values if is_due else {},
            step=(self._epoch - 1) * total + batch,
            epochs=self._epoch,
            is_evaluation=has_evaluation,
            is_due=is_due,
        )

    def _evaluated(self, values: dict[str, float], *, is_last: bool) -> Reading:
        """Return a line of `evaluate`. Only its last one has the result."""
        own = {name if name.startswith("eval_") else f"eval_{name}": value for name, value in values.items()}
        return Reading(values=own if is_last else {}, is_evaluation=True)
