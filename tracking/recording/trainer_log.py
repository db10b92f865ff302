"""Read what Transformers' Trainer prints: its dicts, its tables, and the steps of its dicts. Pure.

A log is read part by part: a progress bar rewrites its line, so one line may have many parts. Trainer's dicts contain
only the epoch, from which `TrainerSteps` finds their steps.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from training.contract.metric_expressions import number

# No two adjacent parts match the same digits, or the time would grow with the square of their number.
NUMBER = r"[-+]?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|inf|nan)"
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x08")
"""Terminal escapes and backspaces."""

_BAR = re.compile(
    r"(?:^|(?<=\s))(?:(?P<description>[^|%]{1,80}?): +)?\d{1,3}%\|[^|]*\| *(?P<n>\d{1,12})/(?P<total>\d{1,12})"
    r" \[(?:\d+:)?\d\d:\d\d<[^,\]]*, *(?:\?|[\d.]+)?(?P<unit>[A-Za-z]+/s|s/[A-Za-z]+)(?:,[^\]]*)?\]"
)
_BAR_STEP_UNITS = re.compile(r"(?:it|batch|batches|step|steps)/s|s/(?:it|batch|batches|step|steps)")


class Bar(NamedTuple):
    """One state of a progress bar."""

    n: int
    total: int


def bar_of(part: str) -> Bar | None:
    """Return the progress bar in this part if it counts steps and has no description, as a training's, else None."""
    match = _BAR.search(_ESCAPE.sub("", part)) if "%|" in part else None
    if match is None or match["description"] or not _BAR_STEP_UNITS.fullmatch(match["unit"]):
        return None
    bar = Bar(int(match["n"]), int(match["total"]))
    return bar if bar.n <= bar.total > 0 else None


_TRAINER_NAME = r"[A-Za-z_][^'\s=:]{0,160}"
# Numbers are bare, quoted (from transformers 5 on), or wrapped in their type (np.float64(0.5), tensor(0.5)).
_TRAINER_ENTRY = re.compile(rf"'({_TRAINER_NAME})': (?:'({NUMBER})'|(?:\w[\w.]*\()?({NUMBER})[,)}}\s])")
_TABLE_ROW = re.compile(rf"  ({_TRAINER_NAME}) +=  *({NUMBER})$")

_NOT_A_METRIC = "total_flos"


def trainer_values(text: str) -> dict[str, float]:
    """Return the numbers of a dict that Trainer logged. Only these dicts contain the epoch."""
    # Not an expression such as \{'.*\}: its time grows with the square of a line that repeats {'.
    start, end = text.find("{'"), text.rfind("}")
    entries = text[start : end + 1] if start >= 0 else ""
    if "'epoch': " not in entries:
        return {}
    values = {name: number(quoted or bare) for name, quoted, bare in _TRAINER_ENTRY.findall(entries)}
    return {name: value for name, value in values.items() if value is not None and name != _NOT_A_METRIC}


def table_row(text: str) -> tuple[str, float] | None:
    """Return the name and the number of a row of a table that `Trainer.log_metrics` printed.

    Rows whose value is no plain number, such as `1737GF` or `0:00:12.34`, are left out.
    """
    row = _TABLE_ROW.match(text)
    value = number(row[2]) if row and row[1] != _NOT_A_METRIC else None
    return None if row is None or value is None else (row[1], value)


class TrainerSteps:
    """Converter from epochs to steps, for the dicts of one training by Transformers' Trainer.

    The state of its progress bar after a dict is the exact step of that dict. Dicts without a bar are placed in
    proportion to the last known epoch.
    """

    def __init__(self) -> None:
        self._bar: Bar | None = None
        """Last state of the training's bar, the first one without a description: evaluations begin later."""
        self._known: tuple[int, float] | None = None
        """Step and epoch of the last dict whose step the bar has shown."""

    def read(self, part: str, awaited: float | None = None) -> int | None:
        """Read any part of a log. Return the step that the training's bar shows in it, or None.

        `awaited` is the epoch of the last training dict, if its step is not known yet.
        """
        bar = bar_of(part)
        if bar is None:
            return None
        # An earlier bar may have been another one: the first after a dict is the training's.
        is_new = self._bar is None or (awaited is not None and self._known is None)
        if not is_new and self._bar and bar.total != self._bar.total:
            return None
        self._bar = bar
        if awaited is not None and awaited > 0 and bar.n:
            self._known = bar.n, awaited
        return bar.n

    def step_at(self, epoch: float) -> int | None:
        """Return the step of an epoch, rounded as the epoch is; None if no step is known."""
        if self._known is None or not math.isfinite(epoch):
            return self._bar.n or None if self._bar and epoch > 0 else None
        step_known, epoch_known = self._known
        return min(max(step_known, round(epoch * step_known / epoch_known)), self.last_step or step_known)

    @property
    def last_step(self) -> int | None:
        """Step of the summary."""
        return self._bar.total if self._bar else None
