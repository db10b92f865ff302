"""Statistics of lengths, and the buckets to which sequences are padded so that a compiler sees few shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

MULTIPLE = 8
MAX_BUCKETS = 4


@dataclass(frozen=True, kw_only=True)
class LengthStatistics:
    """Sequence lengths of a channel's rows after truncation, special tokens included."""

    mean_tokens: float
    median_tokens: int
    p95_tokens: int
    max_tokens: int
    at_max_length_share: float
    """Share of rows that are as long as `max_length`, 0 to 1. Most of them were truncated."""


def length_statistics(length_counts: Mapping[int, int], max_length: int) -> LengthStatistics:
    """Return the statistics of a histogram of lengths.

    A quantile is the smallest length such that at least its share of the rows are no longer.
    """
    rows = sum(length_counts.values())
    return LengthStatistics(
        mean_tokens=sum(length * count for length, count in length_counts.items()) / rows,
        median_tokens=_quantile(length_counts, rows, 0.5),
        p95_tokens=_quantile(length_counts, rows, 0.95),
        max_tokens=max(length_counts),
        at_max_length_share=length_counts.get(max_length, 0) / rows,
    )


def _quantile(length_counts: Mapping[int, int], rows: int, share: float) -> int:
    rows_so_far = 0
    for length in sorted(length_counts):
        rows_so_far += length_counts[length]
        if rows_so_far >= share * rows:
            return length
    raise AssertionError("the shares of a histogram add up to one")


def choose_buckets(lengths: Mapping[int, int], *, max_length: int, max_buckets: int = MAX_BUCKETS) -> tuple[int, ...]:
    """Return at most `max_buckets` bucket lengths with the least padding. The last bucket holds the longest sequence.

    `lengths` maps a length in tokens to the number of sequences of that length; no length exceeds `max_length`. Buckets
    are multiples of 8, which suit tensor cores and vector units, or `max_length` itself. The result is exact: dynamic
    programming over the last bucket, O(candidates^2 x buckets). Of equally good results, the one with the fewest
    buckets is returned.
    """
    counts: dict[int, int] = {}
    for length, count in lengths.items():
        rounded = min(-(-length // MULTIPLE) * MULTIPLE, max_length)
        counts[rounded] = counts.get(rounded, 0) + count
    ends = sorted(counts)
    below = [0]
    for end in ends:
        below.append(below[-1] + counts[end])
    # best[i] covers the first i candidates: (padded tokens, number of buckets, buckets).
    best: list[tuple[int, int, tuple[int, ...]]] = [(0, 0, ())] + [
        (end * below[i + 1], 1, (end,)) for i, end in enumerate(ends)
    ]
    for _ in range(max_buckets - 1):
        best = [best[0]] + [
            min(best[j], *(_extended(best[i], end, below[j] - below[i]) for i in range(1, j))) if j > 1 else best[j]
            for j, end in enumerate(ends, start=1)
        ]
    return best[-1][2]


def _extended(cover: tuple[int, int, tuple[int, ...]], end: int, count: int) -> tuple[int, int, tuple[int, ...]]:
    tokens, buckets, ends = cover
    return tokens + end * count, buckets + 1, (*ends, end)


def with_max_length(buckets: Sequence[int], *, max_length: int) -> tuple[int, ...]:
    """Return ascending bucket lengths that fit every sequence: append `max_length` if the last bucket is shorter."""
    assert all(shorter < longer for shorter, longer in pairwise(buckets)), "the experiment checks that buckets ascend"
    return tuple(buckets) if buckets[-1] >= max_length else (*buckets, max_length)
