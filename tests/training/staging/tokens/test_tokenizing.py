"""Encodings are those of the tokenizer's own call, for every kind of fast tokenizer. Batches are limited."""

from __future__ import annotations

from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from tests.support.staging.fast_tokenizers import CORPUS, KINDS
from training.job.tasks.encodings import cut_rows, encodings
from training.staging.tokens.tokenizing import MAX_CHARACTERS, batches

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
    first, second = (each.ids for each in encodings(lower, ["WHO WON?", "who won?"], None, 50))
    assert first == second
    first, second = (each.ids for each in encodings(plain, ["WHO WON?", "who won?"], None, 50))
    assert first != second


def test_batches_are_limited_by_rows_and_characters() -> None:
    many = MAX_CHARACTERS

    def cut(sizes: list[int], max_rows: int) -> list[list[int]]:
        return list(batches(sizes, lambda size: size, max_rows))

    assert cut([1] * 5, 2) == [[1, 1], [1, 1], [1]]
    assert cut([many, 1, many - 1, 1], 10) == [[many], [1, many - 1], [1]]
    assert cut([many * 2, many * 2], 10) == [[many * 2], [many * 2]]
    assert cut([], 10) == []
