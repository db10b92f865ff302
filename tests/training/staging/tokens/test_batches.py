"""Batches of rows, limited by rows and characters."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event

import pytest

from training.staging.tokens.tokenizing import MAX_CHARACTERS, batches, encoded_batches


def test_batches_are_limited_by_rows_and_characters() -> None:
    many = MAX_CHARACTERS

    def cut(sizes: list[int], max_rows: int) -> list[list[int]]:
        return list(batches(sizes, lambda size: size, max_rows))

    assert cut([1] * 5, 2) == [[1, 1], [1, 1], [1]]
    assert cut([many, 1, many - 1, 1], 10) == [[many], [1, many - 1], [1]]
    assert cut([many * 2, many * 2], 10) == [[many * 2], [many * 2]]
    assert cut([], 10) == []


def test_the_next_batch_is_read_while_one_is_encoded() -> None:
    """The first encoding waits until the second batch is read, and the third batch is not read before it is needed."""
    second_was_read, was_read = Event(), []

    def read() -> Iterator[list[int]]:
        for number in range(3):
            was_read.append(number)
            if number == 1:
                second_was_read.set()
            yield [number]

    def encode(batch: list[int]) -> str:
        assert second_was_read.wait(10)
        return f"encoded {batch[0]}"

    encoded = encoded_batches(read(), encode)
    assert next(encoded) == ([0], "encoded 0")
    assert was_read == [0, 1]
    assert list(encoded) == [([1], "encoded 1"), ([2], "encoded 2")]
    assert list(encoded_batches([], encode)) == []


def test_errors_of_reading_and_encoding_arrive() -> None:
    def read() -> Iterator[list[int]]:
        yield [1]
        raise ValueError("line 2 is malformed")

    with pytest.raises(ValueError, match="line 2 is malformed"):
        list(encoded_batches(read(), len))
    with pytest.raises(ZeroDivisionError):
        list(encoded_batches([[0]], lambda batch: 1 // batch[0]))
