"""Statistics of sequence lengths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


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
