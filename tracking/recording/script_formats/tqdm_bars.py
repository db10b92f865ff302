"""Progress bars of tqdm: `Epoch 1/3:  12%|#2        | 60/500 [00:05<00:40, 10.9it/s, loss=0.69]`.

Only bars that certainly show the training give a step: those with the announced number of steps, and those that are
described as an epoch by its number. A bar with a loss behind its rate gives a step too, but what one step of it is, a
batch or an epoch, is not certain.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tracking.recording.script_formats.announcement import Announcement
from tracking.recording.script_formats.reading import NUMBER, Reading, Unit, plain, standard_name

_BAR = re.compile(
    r"(?:^|(?<=\s))(?:(?P<description>[^|%]{1,80}?): +)?\d{1,3}%\|[^|]*\| *(?P<n>\d{1,12})/(?P<total>\d{1,12})"
    r" \[(?P<elapsed>(?:\d+:)?\d\d:\d\d)<[^,\]]*, *(?:\?|[\d.]+)?(?P<unit>[A-Za-z]+/s|s/[A-Za-z]+)"
    r"(?P<postfix>,[^\]]*)?\]"
)
_STEP_UNITS = re.compile(r"(?:it|batch|batches|step|steps)/s|s/(?:it|batch|batches|step|steps)")
_EPOCH = re.compile(
    r"(?:train(?:ing)?[ :-]*)?epoch[ :]*\[?(\d+)(?: ?/ ?\d+)?\]?(?: \[?train(?:ing)?\]?)?", re.IGNORECASE
)
_TRAINING = re.compile(r"(?:train(?:ing)?|steps?|iterations?)?", re.IGNORECASE)
_VALUE = re.compile(rf", ?([A-Za-z_][\w/]{{0,80}})=({NUMBER})(?=[,\]]|$)")


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One state of a progress bar."""

    description: str
    n: int
    total: int
    elapsed_seconds: int
    values: dict[str, float]
    """Numbers behind the rate, by standard name."""

    @property
    def percent(self) -> int:
        """Share that is done, in whole percent."""
        return 100 * self.n // self.total


def bar_of(part: str) -> Bar | None:
    """Return the progress bar in a part that counts steps; None if there is none."""
    match = _BAR.search(plain(part)) if "%|" in part else None
    if match is None or not _STEP_UNITS.fullmatch(match["unit"]) or not 0 <= int(match["n"]) <= int(match["total"]) > 0:
        return None
    values = {standard_name(name): float(text) for name, text in _VALUE.findall(match["postfix"] or "")}
    return Bar(
        description=(match["description"] or "").strip(),
        n=int(match["n"]),
        total=int(match["total"]),
        elapsed_seconds=_seconds(match["elapsed"]),
        values=values,
    )


def split_after_bar(part: str) -> tuple[str, str]:
    """Return a part up to the end of its progress bar, and the text that the script printed behind the bar."""
    match = _BAR.search(part) if "%|" in part else None
    return (part[: match.end()], part[match.end() :]) if match else (part, "")


class TqdmBars:
    """Reader of the training's bars."""

    def __init__(self, announcement: Announcement) -> None:
        self._announcement = announcement
        self.unit: Unit = "unknown"
        self.logged_batch_size = None
        self._epochs = EpochBars()
        self._single: int | None = None
        """Total of the only bar without an epoch; 0 once there are several, which cannot be told apart."""
        self._recorded = -1

    def read(self, part: str) -> Reading | None:
        """Return the content of a bar; None for other bars and lines. Values come at most once per percent."""
        bar = bar_of(part)
        if bar is None:
            return None
        if total := self._announcement.total_steps:
            self.unit = "update"
            return self._reading(bar, bar.n, 0) if bar.total == total and not bar.description else None
        if match := _EPOCH.fullmatch(bar.description):
            self.unit = "batch"
            step = self._epochs.step(int(match[1]), bar)
            return self._reading(bar, step, self._epochs.count, self._epochs.count)
        if "loss" not in bar.values or not _TRAINING.fullmatch(bar.description) or self._epochs.count:
            return None
        if self._single not in (None, bar.total):
            self._single = 0
            return None
        self._single = bar.total
        return self._reading(bar, bar.n, 1)

    def _reading(self, bar: Bar, step: int, epochs: int, number: int = 0) -> Reading:
        key = 1000 * number + bar.percent
        is_due, self._recorded = key != self._recorded, key
        values = bar.values if is_due else {}
        return Reading(
            values=values,
            step=step,
            epochs=epochs,
            is_due=is_due,
            bar_seconds=bar.elapsed_seconds,
            bar=number,
        )


class EpochBars:
    """Position in a training that has a bar for each epoch."""

    def __init__(self, first: int = 1) -> None:
        """`first` is the number of the first epoch. A training that begins with epoch 0 is read correctly too."""
        self._epoch, self._total, self._before = first, 0, 0
        self.count = 0
        """Bars so far."""

    def step(self, epoch: int, bar: Bar) -> int:
        """Return the step over all epochs, for a bar of the epoch with this number."""
        if epoch != self._epoch or not self.count:
            self._before += max(epoch - self._epoch, 0) * (self._total or bar.total)  # a resumed training begins later
            self._epoch, self.count = epoch, self.count + 1
        self._total = bar.total
        return self._before + bar.n


def _seconds(elapsed: str) -> int:
    seconds = 0
    for part in elapsed.split(":"):
        seconds = 60 * seconds + int(part)
    return seconds
