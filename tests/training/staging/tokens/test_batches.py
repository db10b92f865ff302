"""Batches of rows, limited by rows and characters."""

from __future__ import annotations

from training.staging.tokens.batches import MAX_CHARACTERS, batches


def test_batches_are_limited_by_rows_and_characters() -> None:
    many = MAX_CHARACTERS

    def cut(sizes: list[int], max_rows: int) -> list[list[int]]:
        return list(batches(sizes, lambda size: size, max_rows))

    assert cut([1] * 5, 2) == [[1, 1], [1, 1], [1]]
    assert cut([many, 1, many - 1, 1], 10) == [[many], [1, many - 1], [1]]
    assert cut([many * 2, many * 2], 10) == [[many * 2], [many * 2]]
    assert cut([], 10) == []
