"""The beginning of a text gives the same tokens as the whole text, if the rest is truncated."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from models.loading import beginnings
from models.loading.beginnings import encode_texts, tokenizes_by_word
from tests.support.staging.fast_tokenizers import CORPUS, KINDS

MAX_LENGTH = 8
PIECES = st.sampled_from(
    [
        *CORPUS,
        " ",
        "  ",
        "\n",
        "\u00a0",
        "e\u0301",
        "\u0327",
        "[CLS]",
        "[CL",
        "</s>",
        "日本",
        "a" * 90,
        "'s",
        "x y",
        "…",
    ]
)


def truncating(tokenizer: Any, direction: str = "right") -> Any:
    """Return a copy in the `tokenizers` library that truncates to `MAX_LENGTH` tokens."""
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.enable_truncation(MAX_LENGTH, direction=direction)
    return backend


BACKENDS = {name: truncating(make()) for name, make in KINDS.items()}


@pytest.mark.parametrize("kind", BACKENDS)
@settings(max_examples=30, deadline=None)
@given(texts=st.lists(st.lists(PIECES, max_size=60).map("".join), min_size=1, max_size=3), times=st.integers(1, 20))
def test_the_tokens_are_those_of_the_whole_text(kind: str, texts: list[str], times: int) -> None:
    backend = BACKENDS[kind]
    repeated = [each * times for each in texts]
    whole = [(each.ids, each.type_ids) for each in backend.encode_batch(repeated)]
    assert [(each.ids, each.type_ids) for each in encode_texts(backend, repeated, MAX_LENGTH)] == whole


class Counting:
    """A tokenizer that keeps the lengths of the texts it receives."""

    def __init__(self, backend: Any) -> None:
        self.backend = backend
        self.lengths: list[list[int]] = []

    def encode_batch_fast(self, texts: list[str]) -> Any:
        self.lengths.append([len(each) for each in texts])
        return self.backend.encode_batch_fast(texts)

    def encode_batch(self, texts: list[str]) -> Any:
        self.lengths.append([len(each) for each in texts])
        return self.backend.encode_batch(texts)


def test_only_the_beginning_is_read() -> None:
    """8 tokens begin with 64 characters: 32 words, too few for a margin of 32. 128 characters are 64 words."""
    backend = Counting(BACKENDS["wordpiece"])
    encode_texts(backend, ["w " * 50_000, "w"], MAX_LENGTH)
    assert backend.lengths == [[64, 1], [128]]


def test_a_text_of_one_word_is_read_to_its_end() -> None:
    backend = Counting(BACKENDS["wordpiece"])
    encode_texts(backend, ["w" * 300], MAX_LENGTH)
    assert backend.lengths == [[64], [128], [256], [300]]


def test_all_kinds_are_read_word_by_word() -> None:
    assert [tokenizes_by_word(backend) for backend in BACKENDS.values()] == [True] * len(KINDS)


@pytest.mark.parametrize("change", ["left", "unsplit", "normalizer", "long token"])
def test_other_tokenizers_read_whole_texts(change: str) -> None:
    backend = truncating(KINDS["unigram"](), "left" if change == "left" else "right")
    if change == "unsplit":
        backend.pre_tokenizer = pre_tokenizers.Metaspace(split=False)
    if change == "normalizer":
        backend.normalizer = normalizers.Replace("a b", "c")
    if change == "long token":
        backend.add_tokens(["a" * beginnings.MARGIN_WORDS])
    assert not tokenizes_by_word(backend)


def test_a_tokenizer_without_words_reads_whole_texts() -> None:
    assert not tokenizes_by_word(Tokenizer(models.BPE()))
