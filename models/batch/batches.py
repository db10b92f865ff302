"""Which rows are run together. Pure."""

from __future__ import annotations

from collections.abc import Sequence

CPU_TOKENS = 512
"""Of a batch, padding included. More gains nothing: a core multiplies at its best from here on, and what lies between
two layers still fits its cache (measured with MiniLM, 128 to 4,096)."""
CUDA_TOKENS = 65_536


def batches(lengths: Sequence[int], rows: Sequence[int], most_tokens: int) -> list[list[int]]:
    """Return the positions of inputs in batches of like length, the longest first, so that no long one is left alone
    at the end. An input of `rows` rows of up to `length` tokens takes rows x the longest length of its batch.
    """
    found: list[list[int]] = []
    longest = taken = 0
    for position in sorted(range(len(lengths)), key=lambda at: (-lengths[at], at)):
        if found and (taken + rows[position]) * longest <= most_tokens:
            found[-1].append(position)
            taken += rows[position]
        else:
            found.append([position])
            longest, taken = lengths[position], rows[position]
    return found
