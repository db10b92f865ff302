"""Cut waiting examples into batches. Pure."""

from __future__ import annotations

from collections.abc import Sequence

MAX_EXAMPLES = 32
"""Most examples of one batch. On a CPU, larger batches are not faster."""
MAX_TOKENS = 16384
"""Most tokens of one batch, including padding; limits its memory."""
MAX_STRETCH = 2
"""Most that a batch's longest example may be longer than its shortest, as a factor."""
SHORT_TOKENS = 32
"""Examples up to this length always share a batch, because their padding costs hardly anything."""


def batches(lengths: Sequence[int]) -> list[list[int]]:
    """Group examples of similar length (tokens), and return the positions of each batch's examples, shortest first."""
    result: list[list[int]] = []
    shortest = 0
    for position in sorted(range(len(lengths)), key=lengths.__getitem__):
        length = lengths[position]
        fits = (
            bool(result)
            and len(result[-1]) < MAX_EXAMPLES
            and (len(result[-1]) + 1) * length <= MAX_TOKENS
            and (length <= MAX_STRETCH * shortest or length <= SHORT_TOKENS)
        )
        if fits:
            result[-1].append(position)
        else:
            result.append([position])
            shortest = length
    return result
