"""Find texts that occur in two channels, in limited memory."""

from __future__ import annotations

from array import array

MAX_HASHES = 4_000_000
"""Hashes that are kept of one channel: 32 MB."""


class TextHashes:
    """Hashes of a channel's texts. Above `MAX_HASHES`, a half is dropped again and again, the same in each channel."""

    def __init__(self, maximum: int = MAX_HASHES) -> None:
        self._maximum = maximum
        self._hashes = array("Q")
        self.halvings = 0
        """Times that a half was dropped: of 2 ** halvings different texts, one is kept."""

    def add(self, value: int) -> None:
        """Add the hash of a row's text."""
        if value & ((1 << self.halvings) - 1):
            return
        self._hashes.append(value)
        if len(self._hashes) > self._maximum:
            self.halve(self.halvings + 1)

    def halve(self, halvings: int) -> None:
        """Drop hashes until only one of 2 ** halvings different texts is kept."""
        import numpy as np

        self.halvings = max(halvings, self.halvings)
        hashes = np.array(self._hashes, np.uint64)
        kept = hashes[hashes & np.uint64((1 << self.halvings) - 1) == 0].tobytes()
        self._hashes = array("Q", kept)

    def rows_in(self, other: TextHashes) -> int:
        """Return the number of rows of this channel whose text is in the other, an estimate if a half was dropped."""
        import numpy as np

        halvings = max(self.halvings, other.halvings)
        self.halve(halvings)
        other.halve(halvings)
        ours, theirs = (np.array(each._hashes, np.uint64) for each in (self, other))
        return int(np.isin(ours, theirs).sum()) << halvings
