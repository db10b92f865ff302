"""Rows are drawn as `random.sample` draws them, in little memory."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.staging.rows.selection import drawn_mask, validation_count


@given(st.integers(1, 3_000), st.floats(0, 1), st.integers(0, 2**31 - 1))
def test_the_mask_marks_the_sampled_rows(rows: int, share: float, seed: int) -> None:
    count = int(rows * share)
    ours, theirs = random.Random(seed), random.Random(seed)
    mask = drawn_mask(ours, rows, count)
    assert [row for row, bit in enumerate(mask) if bit] == sorted(theirs.sample(range(rows), count))
    # The next class is drawn from the same generator.
    assert ours.random() == theirs.random()


@pytest.mark.parametrize(
    ("rows", "share", "count"), [(1, 0.2, 0), (2, 0.2, 1), (2, 0.9, 1), (10, 0.2, 2), (15, 0.5, 8), (100, 0.001, 1)]
)
def test_each_side_has_a_row(rows: int, share: float, count: int) -> None:
    assert validation_count(rows, share) == count
