"""Token ids of texts, with a fast tokenizer of transformers, and the columns of a channel that hold them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def encodings(tokenizer: Any, texts: Sequence[str], pairs: Sequence[str] | None, max_length: int | None) -> Any:
    """Return the encodings of texts or pairs of texts, truncated to `max_length` tokens; None does not truncate.

    The longer text of a pair is truncated first. They equal the result of `tokenizer(texts, pairs, ...)`, but have
    no positions of tokens in the text, which would take a third of the time.
    """
    from transformers import PreTrainedTokenizerFast

    names = ("__call__", "_encode_plus", "_switch_to_input_mode")
    own, standard = type(tokenizer), PreTrainedTokenizerFast
    if any(getattr(own, name, None) is not getattr(standard, name, None) for name in names):
        # The tokenizer's class changes texts or encodings in Python.
        batch = tokenizer(texts, pairs, padding=False, truncation=max_length is not None, max_length=max_length)
        return list(batch.encodings)
    backend = tokenizer.backend_tokenizer
    backend.no_padding()
    backend.no_truncation()
    if max_length is not None:
        backend.enable_truncation(max_length, strategy="longest_first", direction=tokenizer.truncation_side)
    backend.encode_special_tokens = tokenizer.split_special_tokens
    return backend.encode_batch_fast(texts if pairs is None else list(zip(texts, pairs)))


def cut_rows(rows: Sequence[Any]) -> int:
    """Return the number of encodings of which the tokenizer cut off tokens."""
    return sum(len(row.overflowing) > 0 for row in rows)


def takes_types(tokenizer: Any) -> bool:
    """Return True if the tokenizer's model reads token types."""
    return "token_type_ids" in tokenizer.model_input_names


def token_columns(ids: Sequence[Sequence[int]], types: Sequence[Sequence[int]] | None) -> "dict[str, pa.Array]":
    """Return the columns of a channel with token ids and, if the model reads them, token types."""
    import pyarrow as pa

    columns = {"input_ids": pa.array(ids, pa.list_(pa.int32()))}
    if types is not None:
        columns["token_type_ids"] = pa.array(types, pa.list_(pa.int8()))
    return columns


def integers(values: Sequence[int]) -> "pa.Array":
    """Return a column of one integer a row."""
    import pyarrow as pa

    return pa.array(values, pa.int64())


def numbers(values: Sequence[float]) -> "pa.Array":
    """Return a column of one number a row, in double precision."""
    import pyarrow as pa

    return pa.array(values, pa.float64())
