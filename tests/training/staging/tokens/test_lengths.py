"""Bucket lengths: the dynamic programming result equals that of an exhaustive search."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from training.staging.tokens.staged import choose_buckets, with_max_length


def padded_tokens(lengths: dict[int, int], buckets: Sequence[int]) -> int:
    """Return the total number of tokens after each sequence is padded to the smallest bucket that holds it."""
    return sum(count * next(end for end in buckets if end >= length) for length, count in lengths.items())


def brute_force(lengths: dict[int, int], max_length: int, max_buckets: int) -> int:
    """Return the fewest padded tokens over all sets of multiples of 8 that hold the longest sequence."""
    candidates = sorted({min(end, max_length) for end in range(8, max_length + 8, 8)})
    return min(
        padded_tokens(lengths, chosen)
        for size in range(1, max_buckets + 1)
        for chosen in combinations(candidates, size)
        if chosen[-1] >= max(lengths)
    )


def test_two_buckets_worked_out_by_hand() -> None:
    # 10 rows of 5, 10 of 30: buckets 8 and 32 pad to 10 x 8 + 10 x 32 = 400; one bucket of 32 would be 640.
    assert choose_buckets({5: 10, 30: 10}, max_length=64) == (8, 32)
    assert padded_tokens({5: 10, 30: 10}, (8, 32)) == 400


def test_max_length_is_a_bucket_even_if_it_is_not_a_multiple_of_8() -> None:
    assert choose_buckets({50: 4, 12: 1}, max_length=50) == (16, 50)


@given(
    st.dictionaries(st.integers(1, 60), st.integers(1, 50), min_size=1, max_size=12),
    st.sampled_from([60, 61, 64]),
    st.integers(1, 4),
)
def test_no_other_buckets_pad_less(lengths: dict[int, int], max_length: int, max_buckets: int) -> None:
    chosen = choose_buckets(lengths, max_length=max_length, max_buckets=max_buckets)
    assert len(chosen) <= max_buckets
    assert list(chosen) == sorted(set(chosen))
    assert chosen[-1] >= max(lengths)
    assert padded_tokens(lengths, chosen) == brute_force(lengths, max_length, max_buckets)


def test_requested_buckets_hold_the_longest_sequence() -> None:
    assert with_max_length((16, 32), max_length=64) == (16, 32, 64)
    assert with_max_length((16, 64), max_length=64) == (16, 64)
    assert with_max_length((16, 96), max_length=64) == (16, 96)
