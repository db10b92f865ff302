"""Parts of one attention whose scores fit in a CPU's caches. Pure."""

from typing import Any, Iterator, NamedTuple, Tuple

BLOCK_BYTES = 3 << 20
"""Size of a block's scores: about what the second-level caches of two cores hold."""
QUERIES = 256
"""Queries in a block of causal attention, which leaves out the keys after the last of them."""
KEY_MULTIPLES = {2: 32}
"""Size of an element in bytes -> multiple to which the number of keys is padded. A vector register holds 32 elements of
16 bits, and PyTorch's softmax takes four times as long for 24 of them as for 32. Other elements need no padding."""


class Sizes(NamedTuple):
    """Sizes of one attention. They are symbols while a compiler traces."""

    batch: Any
    heads: Any
    queries: Any
    keys: Any
    """Padding included, see `padded_count`."""
    is_causal: bool
    """Query i sees the keys 0 to i, and there is no other mask."""


class Block(NamedTuple):
    """Some heads of some rows, and some of their queries."""

    rows: slice
    """Rows of the batch."""
    heads: slice
    flat: slice
    """The same heads, counted over batch x heads."""
    queries: slice
    key_end: int
    """No query of the block sees this key or a later one."""
    scores: slice
    """Position of the block's scores among the scores of all blocks."""

    @property
    def shape(self) -> Tuple[int, int, int]:
        """Shape of the scores: heads of all rows, queries, keys."""
        return self.flat.stop - self.flat.start, self.queries.stop - self.queries.start, self.key_end


def padded_count(keys: Any, number_bytes: int) -> Any:
    """Return the number of keys, padded to a multiple that suits elements of this size."""
    multiple = KEY_MULTIPLES.get(number_bytes, 1)
    return (keys + multiple - 1) // multiple * multiple


def score_count(sizes: Sizes) -> Any:
    """Return the number of scores in all blocks."""
    if not sizes.is_causal:
        return sizes.batch * sizes.heads * sizes.queries * sizes.keys
    # Each whole part of the queries sees one part more of the keys than the one before.
    whole = sizes.queries // QUERIES
    rest = sizes.queries - whole * QUERIES
    return sizes.batch * sizes.heads * (QUERIES**2 * whole * (whole + 1) // 2 + rest * sizes.keys)


def blocks(sizes: Sizes, number_bytes: int) -> Iterator[Block]:
    """Yield the blocks: all heads of several rows, or some heads of one row."""
    queries = min(sizes.queries, QUERIES) if sizes.is_causal else sizes.queries
    fitting = max(1, BLOCK_BYTES // (queries * sizes.keys * number_bytes))
    rows, heads = max(1, fitting // sizes.heads), _balanced_size(sizes.heads, fitting)
    end = 0
    for of_rows in _parts(sizes.batch, rows):
        for of_heads in _parts(sizes.heads, heads):
            first = of_rows.start * sizes.heads + of_heads.start
            count = (of_rows.stop - of_rows.start) * (of_heads.stop - of_heads.start)
            for of_queries in _parts(sizes.queries, queries):
                keys = min(padded_count(of_queries.stop, number_bytes), sizes.keys) if sizes.is_causal else sizes.keys
                begin, end = end, end + count * (of_queries.stop - of_queries.start) * keys
                yield Block(of_rows, of_heads, slice(first, first + count), of_queries, keys, slice(begin, end))


def _balanced_size(count: int, most: int) -> int:
    """Return the size of parts of at most `most` that are equally large, or nearly so."""
    return -(-count // -(-count // most))


def _parts(count: int, size: int) -> Iterator[slice]:
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))
