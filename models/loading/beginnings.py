"""Tokenize only the beginning of a long text, if the model truncates it anyway: the tokens are the same.

A text of 6 MB takes a second and 1.8 GB to tokenize, of which a model with 512 positions uses 3 kB.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

CHARACTERS_PER_TOKEN = 8
"""Characters of a text that are tokenized first, for each token that the model accepts."""
GROWTH = 2
"""Factor by which the beginning grows if it has too few words."""
MARGIN_WORDS = 32
"""Words between the last token that is kept and the end of the beginning. What follows can change the last characters
of the beginning (accents) and its last words (blanks, special tokens), but not words this far before its end."""
_LOCAL_NORMALIZERS = {
    *("BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "Precompiled", "Strip", "StripAccents"),
}
_SPLITTERS = {"BertPreTokenizer", "Whitespace", "WhitespaceSplit"}
_LOCAL_SPLITTERS = {*_SPLITTERS, "ByteLevel", "Digits", "Metaspace", "Punctuation"}


def tokenizes_by_word(backend: Any) -> bool:
    """Return whether a tokenizer of the `tokenizers` library certainly tokenizes the words of a text one by one."""
    state = json.loads(backend.to_str())
    normalizers = _members(state["normalizer"], "normalizers")
    splitters = _members(state["pre_tokenizer"], "pretokenizers")
    return (
        all(each["type"] in _LOCAL_NORMALIZERS for each in normalizers)
        and all(each["type"] in _LOCAL_SPLITTERS for each in splitters)
        and any(_splits(each) for each in splitters)
        and all(len(each["content"]) < MARGIN_WORDS for each in state["added_tokens"])
        and (state["truncation"] or {}).get("direction") == "Right"
    )


def encode_texts(backend: Any, texts: Sequence[str], max_length: int) -> list[Any]:
    """Return the encodings of texts, truncated to `max_length` tokens. `tokenizes_by_word(backend)` must hold."""
    encodings: list[Any] = [None] * len(texts)
    left, characters = list(range(len(texts))), max_length * CHARACTERS_PER_TOKEN
    while left:
        cut = {at for at in left if len(texts[at]) > characters}
        # The fast variant does not return the word of each token.
        encode = backend.encode_batch if cut else backend.encode_batch_fast
        for at, encoding in zip(left, encode([texts[at][:characters] for at in left]), strict=True):
            encodings[at] = encoding
        left = [at for at in left if at in cut and not _is_certain(encodings[at])]
        characters *= GROWTH
    return encodings


def _is_certain(encoding: Any) -> bool:
    """Return whether enough words follow the tokens that are kept."""
    if not encoding.overflowing:
        return False
    kept, rest = (_last_word(part) for part in (encoding, encoding.overflowing[-1]))
    return rest - kept >= MARGIN_WORDS


def _last_word(encoding: Any) -> int:
    return max((word for word in encoding.word_ids if word is not None), default=0)


def _members(part: dict[str, Any] | None, name: str) -> list[dict[str, Any]]:
    if part is None:
        return []
    return list(part[name]) if part["type"] == "Sequence" else [part]


def _splits(pre_tokenizer: dict[str, Any]) -> bool:
    """Return whether a pre-tokenizer separates all words."""
    if pre_tokenizer["type"] in _SPLITTERS:
        return True
    option = {"ByteLevel": "use_regex", "Metaspace": "split"}.get(pre_tokenizer["type"], "")
    return bool(pre_tokenizer.get(option))
