"""Blocks cover each pair of a query and a key that it sees exactly once."""

from __future__ import annotations

import numpy as np
import pytest

from attention import blocks
from attention.blocks import Sizes, padded_count, score_count

CASES = [
    (Sizes(3, 4, 37, 64, False), 2),
    (Sizes(2, 12, 384, 384, False), 2),
    (Sizes(5, 3, 7, 7, False), 8),
    (Sizes(2, 3, 600, 608, True), 2),
    (Sizes(1, 2, 256, 256, True), 4),
    (Sizes(1, 2, 9, 9, True), 4),
    (Sizes(1, 1, 1300, 1300, True), 4),
]


@pytest.mark.parametrize(("sizes", "number_bytes"), CASES)
@pytest.mark.parametrize("block_bytes", [1, 20_000, 3 << 20])
def test_each_pair_is_in_one_block(
    monkeypatch: pytest.MonkeyPatch, sizes: Sizes, number_bytes: int, block_bytes: int
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", block_bytes)
    seen = np.zeros((sizes.batch * sizes.heads, sizes.queries, sizes.keys), dtype=int)
    end = 0
    for block in blocks.blocks(sizes, number_bytes):
        seen[block.flat, block.queries, : block.key_end] += 1
        heads = np.arange(sizes.batch * sizes.heads).reshape(sizes.batch, sizes.heads)[block.rows, block.heads]
        assert heads.ravel().tolist() == list(range(block.flat.start, block.flat.stop))
        # The scores of all blocks follow each other.
        assert block.scores == slice(end, end + int(np.prod(block.shape)))
        end = block.scores.stop
    assert end == score_count(sizes)
    query, key = np.indices(seen.shape[1:])
    is_needed = key <= query if sizes.is_causal else np.ones_like(seen[0], dtype=bool)
    assert seen.max() == 1
    assert (seen[:, is_needed] == 1).all()


def test_causal_blocks_leave_out_keys_that_no_query_sees() -> None:
    """At 1,024 tokens in four parts, a quarter, a half, three quarters and all of the keys: 10 of 16 parts."""
    assert score_count(Sizes(1, 1, 1024, 1024, True)) == 1024 * 1024 * 10 // 16


def test_blocks_are_about_equally_large() -> None:
    """Ten heads would fit, but ten and two use the cores worse than six and six."""
    shapes = [block.shape for block in blocks.blocks(Sizes(1, 12, 384, 384, False), 2)]
    assert shapes == [(6, 384, 384), (6, 384, 384)]


def test_keys_of_16_bits_are_padded_count_up() -> None:
    assert [padded_count(keys, 2) for keys in (1, 32, 33)] == [32, 32, 64]
    assert padded_count(33, 4) == 33
