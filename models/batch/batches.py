"""Group rows into batches. Pure."""

from __future__ import annotations

from collections.abc import Sequence

CPU_TOKENS = 512
"""Tokens of a batch, padding included. More is not faster: a core multiplies at full speed from here on, and
activations still fit its cache (measured with MiniLM, 128 to 4,096)."""
CUDA_TOKENS = 65_536


def batches(lengths: Sequence[int], rows: Sequence[int], most_tokens: int) -> list[list[int]]:
    """Return the positions of inputs in batches of similar length, the longest first.

    So no long input runs by itself at the end. An input costs its `rows` x the longest length of its batch, in tokens.
    """
    result: list[list[int]] = []
    longest = taken = 0
    for position in sorted(range(len(lengths)), key=lambda at: (-lengths[at], at)):
        if result and (taken + rows[position]) * longest <= most_tokens:
            result[-1].append(position)
            taken += rows[position]
        else:
            result.append([position])
            longest, taken = lengths[position], rows[position]
    return result
