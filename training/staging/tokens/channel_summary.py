"""Collect the description of a channel while its rows are written."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import TYPE_CHECKING

from training.staging.rows.hashes import hash_of
from training.staging.tokens.description import SAMPLES, ChannelDescription, Sample, preview
from training.staging.tokens.lengths import length_statistics
from training.staging.tokens.text_hashes import TextHashes

if TYPE_CHECKING:
    import numpy as np


class ChannelSummary:
    """Counts of one channel. It keeps eight bytes of each row at most."""

    def __init__(self, *, max_length: int, classes: int = 0) -> None:
        import numpy as np

        self.max_length = max_length
        self._lengths = np.zeros(max_length + 1, np.int64)
        self._classes = np.zeros(classes, np.int64)
        self.source_rows = 0
        """Rows of the data."""
        self.cut_rows = 0
        """Rows of the data that `max_length` cut."""
        self.texts = TextHashes()
        """Texts of the rows of the data."""
        self._samples: list[tuple[int, Sample]] = []

    def add_source_row(self, texts: Sequence[str], *, number: int = 0, label: str | None = None) -> None:
        """Count a row of the data, with its one or two texts."""
        self.source_rows += 1
        value = hash_of(*texts)
        self.texts.add(value)
        # The rows with the smallest hashes are a random sample, the same one for the same data. The heap holds negative
        # hashes, so that its first entry is the largest hash.
        if len(self._samples) == SAMPLES and -value <= self._samples[0][0]:
            return
        if any(-value == each for each, _ in self._samples):
            return
        push = heapq.heappushpop if len(self._samples) == SAMPLES else heapq.heappush
        push(self._samples, (-value, Sample(number=number, text=preview(*texts), label=label)))

    def add_rows(self, lengths: np.ndarray, classes: np.ndarray | None = None) -> None:
        """Count rows of the channel, with their lengths in tokens and their class numbers."""
        import numpy as np

        self._lengths += np.bincount(lengths, minlength=len(self._lengths))
        if classes is not None:
            self._classes += np.bincount(classes, minlength=len(self._classes))

    @property
    def rows(self) -> int:
        """Rows of the channel."""
        return int(self._lengths.sum())

    @property
    def class_counts(self) -> tuple[int, ...]:
        """Rows of each class."""
        return tuple(self._classes.tolist())

    @property
    def length_counts(self) -> dict[int, int]:
        """Number of rows by length in tokens, ascending."""
        return {length: count for length, count in enumerate(self._lengths.tolist()) if count}

    def samples(self) -> tuple[Sample, ...]:
        """Return the sample rows in the order of the data."""
        return tuple(sample for _, sample in sorted(self._samples, key=lambda each: (each[1].number, -each[0])))

    def description(self) -> ChannelDescription:
        """Return the description of the rows up to now."""
        counts = self.length_counts
        return ChannelDescription(
            rows=self.rows,
            source_rows=self.source_rows,
            lengths=length_statistics(counts, self.max_length),
            tokens=sum(length * count for length, count in counts.items()),
            cut_rows=self.cut_rows,
            class_counts=self.class_counts,
        )
