"""Planned batch shapes, compared with those that the collator makes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from data.batch_shapes import Shape, planned_batches, planned_shapes, representatives
from data.channels import ChannelMetadata, Rows
from data.padding import WORK, Collator, Padding
from data.sampler import deal_to_processes
from tasks import classification

METADATA = ChannelMetadata("classification", ("a",), 20, 1, 0, 0, "right")
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
    # Lengths in the first epoch: (3 5) (5 5) (9 9) (2 and a copy); in the second: (2 9) (9 5) (5 5) (3 and a copy).
    assert planned_shapes(orders, lengths, 2, 100, padding) == [
        Shape(2, 5, False),
        Shape(2, 5, True),
        Shape(2, 10, True),
    ]
    assert planned_shapes(orders, lengths, 2, 2, padding) == [Shape(2, 5, False), Shape(2, 5, True)]
    assert Shape(1, 2, False) in planned_shapes(orders, lengths, 2, 100, Padding("longest", 20))


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
    collator = Collator(padding, METADATA, classification.targets, batch_size)
    order = deal_to_processes(np.arange(len(lengths)), batch_size, processes)
    cut = [[rows[at] for at in order[start : start + batch_size]] for start in range(0, len(order), batch_size)]
    collated = set()
    for batch in [*cut, *cut][:max_batches]:
        mask = collator(batch)["attention_mask"]
        collated.add(Shape(*mask.shape, bool((mask == 0).any())))
    assert set(planned_shapes([order, order], np.array(lengths), batch_size, max_batches, padding)) == collated


def test_positions_without_padding_are_the_tokens() -> None:
    # The last batch has a row and a duplicate of it, which has the number of a row in a second round.
    order, lengths = np.array([0, 1, 2, 3, 4, 9]), np.array([3, 5, 5, 2, 7])
    assert planned_batches(order, lengths, 2, Padding("none", 20)).positions.tolist() == [8, 7, 7]
    assert planned_batches(order, lengths, 2, Padding("longest", 20)).positions.tolist() == [10, 10, 7]


def test_work_counts_every_position_of_the_shape() -> None:
    batch = Collator(Padding("max_length", 20), METADATA, classification.targets, 4)(
        [{"input_ids": np.ones(3), "label": 0}]
    )
    assert batch[WORK].positions == 80


def test_representatives_are_the_extremes_of_each_kind() -> None:
    shapes = [Shape(8, 3, True), Shape(8, 5, True), Shape(8, 9, True), Shape(8, 9, False), Shape(2, 4, True)]
    assert representatives(shapes) == [Shape(8, 9, True), Shape(8, 9, False), Shape(8, 3, True), Shape(2, 4, True)]
