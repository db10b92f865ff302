"""PyTorch Lightning's bar: `Epoch 0:  12%|#2   | 60/500 [00:05<00:40, 10.9it/s, v_num=0, train_loss=0.693]`.

Epochs count from 0. The values of the last evaluation stay in the bar, so they are read only when they change.
Lightning shows each batch twice: with the values of the batch before, and with its own. An empty bar shows those of the
epoch before.
"""

from __future__ import annotations

import re

from tracking.recording.script_formats.reading import Reading, Unit
from tracking.recording.script_formats.tqdm_bars import Bar, EpochBars, bar_of

_EPOCH = re.compile(r"Epoch (\d+)")
_EVALUATION = re.compile(r"Validation(?: DataLoader \d+)?|Testing(?: DataLoader \d+)?")
_OLD_EVALUATION = "Validating"
"""Description of the evaluation's bar in old versions, whose `Epoch` bar also counts the evaluation's batches."""
_NAMES = {"train_loss": "loss", "train_loss_step": "loss", "train_loss_epoch": "train_loss"}


class Lightning:
    """Reader of Lightning's bars."""

    unit: Unit = "batch"
    logged_batch_size = None

    def __init__(self) -> None:
        self._epochs = EpochBars(first=0)
        self._evaluated: dict[str, float] = {}
        self._recorded = self._step = -1
        self._trained: dict[str, float] = {}
        self._is_lightning = False
        self._counts_evaluation = False

    def read(self, part: str) -> Reading | None:
        """Return the content of a bar; None for other lines. Values come at most once per percent of an epoch."""
        bar = bar_of(part)
        if bar is None:
            return None
        self._is_lightning = self._is_lightning or "v_num" in bar.values
        self._counts_evaluation = self._counts_evaluation or bar.description == _OLD_EVALUATION
        if self._is_lightning and _EVALUATION.fullmatch(bar.description):
            return Reading(is_evaluation=True)
        match = _EPOCH.fullmatch(bar.description)
        if not match or not self._is_lightning or not bar.n:
            return None
        return self._reading(bar, self._epochs.step(int(match[1]), bar))

    def _reading(self, bar: Bar, step: int) -> Reading:
        values = {_NAMES.get(name, name): value for name, value in bar.values.items() if name != "v_num"}
        evaluated = {name: value for name, value in values.items() if name.startswith("eval_")}
        training = {name: value for name, value in values.items() if name not in evaluated}
        number = self._epochs.count
        key = 1000 * number + bar.percent
        is_own = step == self._step or training != self._trained
        is_due, is_new = key != self._recorded and is_own, evaluated != self._evaluated
        self._step, self._trained, self._evaluated = step, training, evaluated
        self._recorded = key if is_due else self._recorded
        return Reading(
            values={**(training if is_due else {}), **(evaluated if is_new else {})},
            step=None if self._counts_evaluation else step,
            epochs=number,
            is_evaluation=is_new,
            is_due=is_due,
            bar_seconds=bar.elapsed_seconds,
            bar=number,
        )
