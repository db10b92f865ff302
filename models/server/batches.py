"""How what waits is cut into batches. Pure."""

from __future__ import annotations

from collections.abc import Sequence

MOST_EXAMPLES = 32
"""Of one batch; beyond it a processor gains nothing."""
MOST_TOKENS = 16384
"""Of one batch, padding counted: bounds its memory."""
MOST_STRETCH = 2
"""The longest of a batch has at most this many times the tokens of the shortest..."""
SHORT_TOKENS = 32
"""...unless it is as short as this, where a batch costs hardly more than an example."""


def batches(lengths: Sequence[int]) -> list[list[int]]:
    """Return the positions of examples of these lengths (tokens), in batches of like length, the shortest first."""
    found: list[list[int]] = []
    shortest = 0
    for position in sorted(range(len(lengths)), key=lengths.__getitem__):
        length = lengths[position]
        fits = (
            bool(found)
            and len(found[-1]) < MOST_EXAMPLES
            and (len(found[-1]) + 1) * length <= MOST_TOKENS
            and (length <= MOST_STRETCH * shortest or length <= SHORT_TOKENS)
        )
        if fits:
            found[-1].append(position)
        else:
            found.append([position])
            shortest = length
    return found
