"""The few lengths that sequences are padded to, so that a compiler meets few shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

MULTIPLE = 8
MOST_BUCKETS = 4


def choose(lengths: Mapping[int, int], *, max_length: int, most_buckets: int = MOST_BUCKETS) -> tuple[int, ...]:
    """Return at most `most_buckets` lengths that pad the fewest tokens; the longest sequence fits the last.

    `lengths` maps a length in tokens to how many sequences have it; none exceeds `max_length`. Buckets are
    multiples of 8 (tensor cores and vector units like them), or `max_length` itself. Exact: dynamic programming
    over the last bucket, O(candidates^2 x buckets); of equally good choices the one with fewest buckets.
    """
    counts: dict[int, int] = {}
    for length, count in lengths.items():
        rounded = min(-(-length // MULTIPLE) * MULTIPLE, max_length)
        counts[rounded] = counts.get(rounded, 0) + count
    ends = sorted(counts)
    below = [0]
    for end in ends:
        below.append(below[-1] + counts[end])
    # best[i]: fewest padded tokens, and the buckets, that cover the first i candidates.
    best: list[tuple[int, int, tuple[int, ...]]] = [(0, 0, ())] + [
        (end * below[i + 1], 1, (end,)) for i, end in enumerate(ends)
    ]
    for _ in range(most_buckets - 1):
        best = [best[0]] + [
            min(best[j], *(_extended(best[i], end, below[j] - below[i]) for i in range(1, j))) if j > 1 else best[j]
            for j, end in enumerate(ends, start=1)
        ]
    return best[-1][2]


def _extended(cover: tuple[int, int, tuple[int, ...]], end: int, count: int) -> tuple[int, int, tuple[int, ...]]:
    tokens, buckets, ends = cover
    return tokens + end * count, buckets + 1, (*ends, end)


def completed(buckets: Sequence[int], *, max_length: int) -> tuple[int, ...]:
    """Return ascending buckets whose last takes the longest sequence: `max_length` is appended if it is missing."""
    assert all(shorter < longer for shorter, longer in pairwise(buckets)), "buckets ascend: the experiment checked it"
    return tuple(buckets) if buckets[-1] >= max_length else (*buckets, max_length)


def padded_tokens(lengths: Mapping[int, int], buckets: Sequence[int]) -> int:
    """Return the tokens of all sequences once each is padded to the smallest bucket that takes it."""
    return sum(count * next(end for end in buckets if end >= length) for length, count in lengths.items())
