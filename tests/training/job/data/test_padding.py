"""Batches: lengths, padding and duplicates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.job.data.channels import ChannelMetadata, Rows
from training.job.data.padding import (
    IS_COMPLETE,
    IS_PADDED,
    PACKED_TOKENS,
    WORK,
    Collator,
    Padding,
    Shape,
    Work,
    deal_to_processes,
    padding_kind,
    planned_batches,
    planned_shapes,
    representatives,
)
from training.job.tasks import TASKS

METADATA = ChannelMetadata(
    "classification", ("a", "b"), 12, 3, pad_token_id=9, pad_token_type_id=5, padding_side="right"
)


def row(length: int, label: int = 1, typed: bool = False) -> dict[str, Any]:
    fields: dict[str, Any] = {"input_ids": np.arange(1, length + 1, dtype=np.int32), "label": np.int64(label)}
    return fields | ({"token_type_ids": np.ones(length, dtype=np.int8)} if typed else {})


LONGEST, BUCKETS = Padding("longest", 12), Padding("buckets", 12, (4,))
REPEAT_ROW = {**row(4, 0), "is_duplicate": True}


def batch_of(rows: list[dict[str, Any]], padding: Padding, size: int | None = None) -> dict[str, Any]:
    """Return a batch of classification: of a training with `size`, else of an evaluation."""
    return Collator(padding, METADATA, TASKS["classification"].targets, size)(rows)


@pytest.mark.parametrize(
    ("padding", "longest", "shortest", "length"),
    [
        (Padding("longest", 12), 7, 3, 7),
        (Padding("max_length", 12), 7, 3, 12),
        (Padding("longest", 12, multiple=8), 5, 2, 8),
        (Padding("longest", 12, multiple=8), 9, 2, 12),
        (Padding("buckets", 12, (4, 8)), 4, 2, 4),
        (Padding("buckets", 12, (4, 8)), 5, 2, 8),
        (Padding("buckets", 12, (4, 8)), 9, 2, 12),
        (Padding("buckets", 12, (4, 16)), 9, 2, 12),
        # A longer batch is needed only if no row has padding.
        (Padding("longest", 12, leaves_room=True), 7, 7, 8),
        (Padding("longest", 12, leaves_room=True), 7, 6, 7),
        (Padding("longest", 12, leaves_room=True), 12, 12, 12),
        (Padding("buckets", 12, (4, 8), leaves_room=True), 4, 4, 8),
        (Padding("buckets", 12, (4, 8), leaves_room=True), 12, 12, 12),
    ],
)
def test_padded_lengths_by_hand(padding: Padding, longest: int, shortest: int, length: int) -> None:
    assert padding.lengths(np.array([longest]), np.array([shortest])).tolist() == [length]


def test_auto_takes_buckets_where_each_length_is_a_program() -> None:
    cases = [("cpu", False), ("cpu", True), ("cuda", False), ("cuda", True)]
    assert [padding_kind("auto", *case) for case in cases] == ["longest", "longest", "longest", "buckets"]
    assert padding_kind("max_length", "cuda", True) == "max_length"


def test_a_batch_by_hand() -> None:
    batch = batch_of([row(3, 0, typed=True), row(2, 1, typed=True)], LONGEST, 2)
    assert batch["input_ids"].tolist() == [[1, 2, 3], [1, 2, 9]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 1, 0]]
    assert batch["token_type_ids"].tolist() == [[1, 1, 1], [1, 1, 5]]
    assert batch["labels"].tolist() == [0, 1]
    assert batch[WORK] == Work(samples=2, tokens=5, positions=6, pairs=13)


def test_a_training_batch_says_if_it_has_all_rows() -> None:
    rows = [row(3), row(2), row(4)]
    assert batch_of(rows, BUCKETS, 3)[IS_COMPLETE]
    assert not batch_of(rows, BUCKETS, 4)[IS_COMPLETE]
    assert not batch_of([*rows, REPEAT_ROW], BUCKETS, 4)[IS_COMPLETE]
    assert IS_COMPLETE not in batch_of(rows, BUCKETS)


def test_a_packed_batch_counts_its_tokens_as_positions() -> None:
    packed = Padding("none", 12, multiple=8)
    batch = batch_of([row(3), row(2)], packed, 4)
    assert batch["input_ids"].shape == (2, 8)
    assert batch[PACKED_TOKENS] == 5
    assert batch[WORK] == Work(samples=2, tokens=5, positions=5, pairs=13)
    evaluated = batch_of([row(2), REPEAT_ROW, REPEAT_ROW], packed)
    assert evaluated[PACKED_TOKENS] == 10


def test_duplicates_are_no_rows_of_a_training() -> None:
    rows = [row(2, 1), REPEAT_ROW, REPEAT_ROW]
    batch = batch_of(rows, BUCKETS, 3)
    assert batch["labels"].tolist() == [1]
    assert batch[WORK] == Work(samples=1, tokens=2, positions=4, pairs=4)
    # The loss of no rows would not be a number.
    only_duplicates = batch_of([REPEAT_ROW] * 3, BUCKETS, 3)
    assert only_duplicates["labels"].tolist() == [0]
    assert only_duplicates[WORK] == Work(samples=0, tokens=0, positions=4)
    # Evaluation batches keep their size.
    assert batch_of(rows, LONGEST)["labels"].tolist() == [1, 0, 0]


LONG = ChannelMetadata("classification", ("a",), 20, 1, 0, 0, "right")
PADDINGS = st.sampled_from(
    [
        Padding("longest", 20),
        Padding("longest", 20, leaves_room=True),
        Padding("buckets", 20, (5, 11)),
        Padding("buckets", 20, (5, 11), leaves_room=True),
        Padding("max_length", 20),
        Padding("none", 20),
    ]
)


def test_planned_shapes_by_hand() -> None:
    lengths = np.array([3, 5, 5, 5, 9, 9, 2])
    orders = [np.arange(7), np.arange(7)[::-1]]
    padding = Padding("buckets", 20, (5, 10))
    # Lengths in the first epoch: (3 5) (5 5) (9 9) (2); in the second: (2 9) (9 5) (5 5) (3).
    assert planned_shapes(orders, lengths, 2, 100, padding) == [
        Shape(2, 5, False),
        Shape(2, 5, True),
        Shape(2, 10, True),
    ]
    assert planned_shapes(orders, lengths, 2, 2, padding) == [Shape(2, 5, False), Shape(2, 5, True)]
    # A batch with fewer rows runs without a compiler.
    assert {shape.rows for shape in planned_shapes(orders, lengths, 2, 100, Padding("longest", 20))} == {2}


@given(
    st.lists(st.integers(1, 20), min_size=1, max_size=40),
    st.integers(1, 6),
    st.integers(1, 12),
    st.integers(1, 3),
    PADDINGS,
)
def test_planned_shapes_equal_the_collators_shapes(
    lengths: list[int], batch_size: int, max_batches: int, processes: int, padding: Padding
) -> None:
    ends = np.cumsum(lengths)
    rows = Rows(np.ones(ends[-1], dtype=np.int32), ends, None, {"label": np.zeros(len(lengths), dtype=np.int64)})
    collator = Collator(padding, LONG, TASKS["classification"].targets, batch_size)
    order = deal_to_processes(np.arange(len(lengths)), batch_size, processes)
    cut = [[rows[at] for at in order[start : start + batch_size]] for start in range(0, len(order), batch_size)]
    collated = set()
    for batch in [*cut, *cut][:max_batches]:
        made = collator(batch)
        if made[IS_COMPLETE]:
            collated.add(Shape(*made["attention_mask"].shape, made[IS_PADDED]))
    assert set(planned_shapes([order, order], np.array(lengths), batch_size, max_batches, padding)) == collated


def test_positions_without_padding_are_the_tokens() -> None:
    # The last batch has a row and a duplicate of it, which has the number of a row in a second round.
    order, lengths = np.array([0, 1, 2, 3, 4, 9]), np.array([3, 5, 5, 2, 7])
    assert planned_batches(order, lengths, 2, Padding("none", 20)).positions.tolist() == [8, 7, 7]
    assert planned_batches(order, lengths, 2, Padding("longest", 20)).positions.tolist() == [10, 10, 7]


def test_representatives_are_the_extremes_of_each_kind() -> None:
    shapes = [Shape(8, 3, True), Shape(8, 5, True), Shape(8, 9, True), Shape(8, 9, False)]
    assert representatives(shapes) == [Shape(8, 9, True), Shape(8, 9, False), Shape(8, 3, True)]
