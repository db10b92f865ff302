"""Encodings are those of the tokenizer's own call, for every kind of fast tokenizer. Batches are limited."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from tests.support.staging.fast_tokenizers import CORPUS, KINDS
from training.staging.rows.labels import Example
from training.staging.tokens.tokenizing import MAX_CHARACTERS, batches, cut_rows, encode, encoded_batches, encodings

TEXTS = [*CORPUS, "?", "won " * 40, "  two\tblanks and [SEP] or </s> in a text  "]
PAIRS = list(reversed(TEXTS))


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("pairs", [None, PAIRS])
@pytest.mark.parametrize(("max_length", "side"), [(8, "right"), (8, "left"), (1_000, "right"), (None, "right")])
def test_the_tokens_are_those_of_the_tokenizers_own_call(
    name: str, pairs: list[str] | None, max_length: int | None, side: str
) -> None:
    tokenizer = KINDS[name]()
    tokenizer.truncation_side = side
    # Whatever an earlier call has set does not count.
    tokenizer(TEXTS, truncation=True, max_length=5, padding=True)
    rows = encodings(tokenizer, TEXTS, pairs, max_length)
    own = KINDS[name]()
    own.truncation_side = side
    expected = own(TEXTS, pairs, truncation=max_length is not None, max_length=max_length)
    assert [row.ids for row in rows] == expected["input_ids"]
    assert [row.type_ids for row in rows] == [row.type_ids for row in expected.encodings]
    assert cut_rows(rows) == sum(bool(row.overflowing) for row in expected.encodings)
    assert (cut_rows(rows) > 0) == (max_length == 8)


def test_a_tokenizer_that_changes_texts_in_python_is_called() -> None:
    class Lower(PreTrainedTokenizerFast):
        def __call__(self, text: Any, *arguments: Any, **options: Any) -> Any:
            return super().__call__([each.lower() for each in text], *arguments, **options)

    plain = KINDS["byte_level"]()
    lower = Lower(tokenizer_object=plain.backend_tokenizer, eos_token="</s>", pad_token="<pad>")
    examples = [Example(1, "WHO WON?", None, 0), Example(2, "who won?", None, 1)]
    first, second = encode(lower, examples, 50).input_ids
    assert first == second
    first, second = encode(plain, examples, 50).input_ids
    assert first != second


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
