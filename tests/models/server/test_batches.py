"""Division of waiting examples into batches, worked out by hand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from models.server.batches import MAX_EXAMPLES, MAX_STRETCH, MAX_TOKENS, SHORT_TOKENS, batches


def test_a_single_example_is_a_batch() -> None:
    assert batches([7]) == [[0]]
    assert batches([]) == []


def test_short_examples_share_a_batch_whatever_their_lengths() -> None:
    assert batches([30, 3, 12]) == [[1, 2, 0]]


def test_long_and_short_examples_are_in_different_batches() -> None:
    # 100 is more than twice 40, and more than 32.
    assert batches([100, 40, 20, 90]) == [[2, 1], [3, 0]]


def test_a_batch_has_limited_examples_and_tokens() -> None:
    assert [len(batch) for batch in batches([8] * 70)] == [32, 32, 6]
    # 16,384 / 1,000 = 16 rows.
    assert [len(batch) for batch in batches([1000] * 40)] == [16, 16, 8]


@given(st.lists(st.integers(1, 20_000), max_size=200))
def test_every_example_runs_once_within_the_limits(lengths: list[int]) -> None:
    result = batches(lengths)
    assert sorted(position for batch in result for position in batch) == list(range(len(lengths)))
    for batch in result:
        longest, shortest = max(lengths[at] for at in batch), min(lengths[at] for at in batch)
        assert len(batch) <= MAX_EXAMPLES
        assert len(batch) == 1 or len(batch) * longest <= MAX_TOKENS
        assert longest <= max(SHORT_TOKENS, MAX_STRETCH * shortest)
