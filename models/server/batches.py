"""Cut waiting examples into batches. Pure."""

from __future__ import annotations

from collections.abc import Sequence

MAX_EXAMPLES = 32
"""Examples of one batch. On a CPU, more are not faster."""
MAX_TOKENS = 16384
"""Tokens of one batch, padding included; bounds its memory."""
MAX_STRETCH = 2
"""Longest example of a batch, as a multiple of its shortest."""
SHORT_TOKENS = 32
"""Up to this length examples share a batch in any case: it costs hardly more than one example."""


def batches(lengths: Sequence[int]) -> list[list[int]]:
    """Return the positions of examples of these lengths (tokens), in batches of similar length, the shortest first."""
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
