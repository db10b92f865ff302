"""All formats of training scripts, and the choice among those that a log contains."""

from __future__ import annotations

from dataclasses import replace

from tracking.recording.script_formats.accelerate import Accelerate
from tracking.recording.script_formats.announcement import Announcement
from tracking.recording.script_formats.keras import Keras
from tracking.recording.script_formats.lightning import Lightning
from tracking.recording.script_formats.nanogpt import NanoGpt
from tracking.recording.script_formats.reading import Format, Reading
from tracking.recording.script_formats.tqdm_bars import TqdmBars
from tracking.recording.script_formats.word_language_model import WordLanguageModel

FORMATS: tuple[type[Format], ...] = (NanoGpt, WordLanguageModel, Keras, Lightning, Accelerate)
"""Formats that can be recognized by their own lines. Progress bars, which any script may have, come after them."""


class LogFormats:
    """Reader of all formats. The steps of a log come from one format."""

    def __init__(self, announcement: Announcement) -> None:
        self._bars = TqdmBars(announcement)
        self._formats: tuple[Format, ...] = (*(make() for make in FORMATS), self._bars)
        self.source: Format | None = None
        """Format that gives the steps."""
        self.is_ambiguous = False
        """True if two formats give steps. The later lines then have none."""

    def read(self, part: str) -> Reading | None:
        """Return the content of a part by the first format that reads it, or None."""
        for each in self._formats:
            if reading := each.read(part):
                return self._from(each, reading)
        return None

    def _from(self, format: Format, reading: Reading) -> Reading:
        if reading.step is None:
            return reading
        if self.source is None or self.source is self._bars:
            self.source = format
        elif format is not self.source:
            if format is self._bars:  # a script may show a bar beside its own lines, which have the step too
                return replace(reading, step=None, values={})
            self.is_ambiguous = True
        return replace(reading, step=None) if self.is_ambiguous else reading
