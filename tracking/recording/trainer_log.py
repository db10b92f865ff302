"""Read what Transformers' Trainer prints: its dicts, its tables, and the steps of its dicts. Pure.

A log is read part by part: a progress bar rewrites its line, so one line may have many parts. Trainer's dicts contain
only the epoch, from which `TrainerSteps` finds their steps.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

from training.contract.metric_expressions import number

# No two adjacent parts match the same digits, or the time would grow with the square of their number.
NUMBER = r"[-+]?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|inf|nan)"
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x08")
"""Terminal escapes and backspaces."""


_ANNOUNCED_START = "***** Running training *****"
_ANNOUNCED_LIMIT = "max_steps is given"
_ANNOUNCED_FACTS = {
    "examples": re.compile(r"  Num examples = ([\d,]{1,20})$"),
    "batch_size": re.compile(r"  Total train batch size \(w\. parallel, distributed & accumulation\) = ([\d,]{1,20})$"),
    "epochs": re.compile(r"  Num Epochs = ([\d,]{1,20})$"),
    "accumulation": re.compile(r"  Gradient Accumulation steps = ([\d,]{1,20})$"),
    "total_steps": re.compile(r"  Total optimization steps = ([\d,]{1,20})$"),
}


class Announcement:
    """Facts in the block that Trainer and accelerate's examples log before the first step.

    ***** Running training *****
      Num examples = 100
      Num Epochs = 2
      Total train batch size (w. parallel, distributed & accumulation) = 16
      Gradient Accumulation steps = 2
      Total optimization steps = 14

    A later block, of a second training, replaces the first. Nothing is known before the end of a block.
    """

    def __init__(self) -> None:
        self.total_steps = 0
        """Updates of the whole training; 0 if unknown."""
        self.batch_size = 0
        """Samples of one update, over all devices; 0 if unknown."""
        self._examples, self._accumulation = 0, 1
        self._is_limited = False
        """True if a limit on steps ends the training within an epoch."""
        self._block: dict[str, int] | None = None
        """Facts of a block that has not ended."""

    def read(self, part: str) -> None:
        """Read one part of a line."""
        self._is_limited |= _ANNOUNCED_LIMIT in part
        if _ANNOUNCED_START in part:
            self.total_steps = self.batch_size = self._examples = 0
            self._block = {}
        elif self._block is not None:
            self._block |= {
                name: int(m[1].replace(",", "")) for name, text in _ANNOUNCED_FACTS.items() if (m := text.search(part))
            }
            if "total_steps" in self._block:
                self.total_steps, self.batch_size = self._block["total_steps"], self._block.get("batch_size", 0)
                self._examples = self._block.get("examples", 0)
                self._accumulation = max(1, self._block.get("accumulation", 1))
                whole = self._examples // self.batch_size if self.batch_size else 0
                if not self._is_limited and whole and whole * self._block.get("epochs", 0) == self.total_steps:
                    self._examples = whole * self.batch_size  # an incomplete last batch is dropped
                self._block = None

    @property
    def steps_per_epoch(self) -> int:
        """Updates of one epoch; 0 if unknown."""
        return math.ceil(self._examples / self.batch_size) if self.batch_size else 0

    def step_at(self, epoch: float) -> int | None:
        """Return the step at which Trainer logged this epoch; None if it is unknown.

        Trainer's epoch is the share of the data loader's batches. The last update of an epoch may have fewer of them.
        """
        if not self.steps_per_epoch or not math.isfinite(epoch) or not 0 <= epoch < 2**40:
            return None
        whole, share = int(epoch), epoch - int(epoch)
        batches = math.ceil(self._examples * self._accumulation / self.batch_size)
        return whole * self.steps_per_epoch + min(self.steps_per_epoch, round(share * batches / self._accumulation))

    def samples_after(self, steps: int) -> int | None:
        """Return the samples of the first `steps` updates. The last batch of an epoch may be smaller."""
        if not self.steps_per_epoch:
            return None
        epochs, rest = divmod(steps, self.steps_per_epoch)
        return epochs * self._examples + min(rest * self.batch_size, self._examples)


_BAR = re.compile(
    r"(?:^|(?<=\s))(?:(?P<description>[^|%]{1,80}?): +)?\d{1,3}%\|[^|]*\| *(?P<n>\d{1,12})/(?P<total>\d{1,12})"
    r" \[(?:\d+:)?\d\d:\d\d<[^,\]]*, *(?:\?|[\d.]+)?(?P<unit>[A-Za-z]+/s|s/[A-Za-z]+)(?:,[^\]]*)?\]"
)
_BAR_STEP_UNITS = re.compile(r"(?:it|batch|batches|step|steps)/s|s/(?:it|batch|batches|step|steps)")


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One state of a progress bar."""

    description: str
    n: int
    total: int


def bar_of(part: str) -> Bar | None:
    """Return the progress bar in this part if it counts steps, else None."""
    match = _BAR.search(_ESCAPE.sub("", part)) if "%|" in part else None
    if match is None or not _BAR_STEP_UNITS.fullmatch(match["unit"]) or not int(match["n"]) <= int(match["total"]) > 0:
        return None
    return Bar(
        description=(match["description"] or "").strip(),
        n=int(match["n"]),
        total=int(match["total"]),
    )


_TRAINER_NAME = r"[A-Za-z_][^'\s=:]{0,160}"
# Numbers are bare, quoted (from transformers 5 on), or wrapped in their type (np.float64(0.5), tensor(0.5)).
_TRAINER_ENTRY = re.compile(rf"'({_TRAINER_NAME})': (?:'({NUMBER})'|(?:\w[\w.]*\()?({NUMBER})[,)}}\s])")
_TABLE_HEADER = re.compile(r"\*{5} (\w+) metrics \*{5}")
_TABLE_ROW = re.compile(rf"  ({_TRAINER_NAME}) +=  *(?:((?:\d+ days?, )?\d+:\d\d:\d\d(?:\.\d+)?)|({NUMBER}))$")

_NOT_A_METRIC = "total_flos"
TablePart = Literal["header", "row"]


def trainer_values(text: str) -> dict[str, float]:
    """Return the numbers of a dict that Trainer logged. Only these dicts contain the epoch."""
    # Not an expression such as \{'.*\}: its time grows with the square of a line that repeats {'.
    start, end = text.find("{'"), text.rfind("}")
    entries = text[start : end + 1] if start >= 0 else ""
    if "'epoch': " not in entries:
        return {}
    values = {name: number(quoted or bare) for name, quoted, bare in _TRAINER_ENTRY.findall(entries)}
    return {name: value for name, value in values.items() if value is not None and name != _NOT_A_METRIC}


def table_part(text: str) -> tuple[TablePart, str, float] | None:
    """Parse a line of a table that `Trainer.log_metrics` printed: its header, or the name and value of a row.

    Durations (`0:00:12.34`) are converted to seconds. Values that are not plain numbers, such as `1737GF`, are omitted.
    """
    if header := _TABLE_HEADER.search(text):
        return "header", header[1], math.nan
    row = _TABLE_ROW.match(text)
    if row is None or row[1] == _NOT_A_METRIC:
        return None
    value = seconds(row[2]) if row[2] else number(row[3])
    return None if value is None else ("row", row[1], value)


def seconds(duration: str) -> float:
    """Convert a duration such as `1 day, 2:03:04.5` to seconds. It has no sign and may have no hours."""
    days, _, clock = duration.rpartition(", ")
    total = 0.0
    for part in clock.split(":"):
        total = 60 * total + float(part)
    return total + (86_400 * int(days.split()[0]) if days else 0)


class TrainerSteps:
    """Converter from epochs to steps, for the dicts of one training by Transformers' Trainer.

    In order of precedence: the block that Trainer announces at log level `info`; else its progress bar, whose state
    after a dict is the exact step of that dict. Dicts without a bar are placed in proportion to the last known epoch.
    """

    def __init__(self, announcement: Announcement) -> None:
        self._announcement = announcement
        self._bar: Bar | None = None
        """Last state of the training's bar, the first one without a description: evaluations begin later."""
        self._known: tuple[int, float] | None = None
        """Step and epoch of the last dict whose step the bar has shown."""

    def read(self, part: str, awaited: float | None = None) -> int | None:
        """Read any part of a log. Return the step that the training's bar shows in it, or None.

        `awaited` is the epoch of the last training dict, if its step is not known yet.
        """
        bar = bar_of(part)
        if bar is None or bar.description:
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
        if self._announcement.steps_per_epoch:
            return self._announcement.step_at(epoch)
        if self._known is None or not math.isfinite(epoch):
            return self._bar.n or None if self._bar and epoch > 0 else None
        step_known, epoch_known = self._known
        return min(max(step_known, round(epoch * step_known / epoch_known)), self.last_step or step_known)

    @property
    def last_step(self) -> int | None:
        """Step of the summary."""
        return self._announcement.total_steps or (self._bar.total if self._bar else None)
