"""Turn rows into padded batches, in the order of a training or an evaluation, and plan the shapes of the batches.

Training rows are shuffled, with rows of similar length in one batch. A row that only completes a process's batch is
called a duplicate. Its number is the copied row's number plus the number of rows, so that it does not count as work.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import Sampler

from training.job.data import IGNORED_LABEL, MAX_TARGET_LENGTH, SEGMENTS, TARGET_IDS, TEXT_LENGTHS
from training.job.data.channels import DUPLICATE, ChannelMetadata, Row

LABELS = "label_count"
"""Key under which a training batch carries its number of labels, or of rows if rows have no list of labels."""
WORK = "work"
"""Key under which a training batch carries its `Work`."""
PACKED_TOKENS = "packed_tokens"
"""Key under which a batch of padding `none` carries its number of tokens, so that the model does not wait for it."""
IS_PADDED = "is_padded"
"""Key under which a training batch says if it has padding, so that the model does not read the mask."""
IS_COMPLETE = "is_complete"
"""Key under which a training batch says if it has all rows of a batch, so that a compiler has a program for it."""


class Work(NamedTuple):
    """Amount of useful work in a batch. Counted on the CPU, so that counting never waits for the device."""

    samples: int
    """Rows of the data."""
    tokens: int
    """Tokens of those rows, without padding."""
    positions: int
    """Rows times batch length. With padding `none`, the tokens: the model's layers compute no others, though its
    embeddings and its head do."""
    pairs: int = 0
    """Squares of the rows' tokens, summed: attention multiplies each token with each token of its row, or of its text
    in a row that holds several. For an encoder-decoder, attention of the decoder to itself and to the encoder is
    added."""
    decoder_tokens: int = 0
    """Those of the tokens that an encoder-decoder's decoder reads."""


NO_WORK = Work(0, 0, 0, 0)


@dataclass(frozen=True)
class Padding:
    """Rule for the number of tokens to which the rows of a batch are padded."""

    kind: str
    """longest | buckets | max_length | none."""
    max_length: int
    """Tokens of the longest permitted row."""
    bucket_lengths: tuple[int, ...] = ()
    """Bucket lengths in tokens, ascending."""
    leaves_room: bool = False
    """If True, pad at least one row of each batch if `max_length` permits. Models skip the attention mask of a batch
    without padding, which a compiler treats as a different program."""
    multiple: int = 1
    """With `longest` and `none`, round the length of each batch up to a multiple of this number of tokens."""

    @property
    def is_static(self) -> bool:
        """True if only a few lengths occur."""
        return self.kind in ("buckets", "max_length")

    @property
    def is_packed(self) -> bool:
        """True if the model's layers compute no padding (see `loop/padding_free.py`). Batches are padded for the rest
        of the model."""
        return self.kind == "none"

    def lengths(self, longest: np.ndarray, shortest: np.ndarray) -> np.ndarray:
        """Return the lengths in tokens of batches whose longest and shortest rows have these lengths."""
        if self.kind == "max_length":
            return np.full_like(longest, self.max_length)
        required = np.minimum(longest + 1, self.max_length) if self.leaves_room else longest
        required = np.where(longest == shortest, required, longest)
        if self.kind in ("longest", "none"):
            return np.asarray(np.minimum(-(-required // self.multiple) * self.multiple, self.max_length))
        buckets = np.array([length for length in self.bucket_lengths if length < self.max_length] + [self.max_length])
        return np.asarray(buckets[np.searchsorted(buckets, required)])


def padding_kind(requested: str, device_kind: str, compiles: bool) -> str:
    """Return the kind of padding, with `auto` resolved: buckets where a compiler makes one program for each length.

    On a CPU, one program of inductor serves all lengths (`loop/compile_phase.is_dynamic`).
    """
    if requested != "auto":
        return requested
    return "buckets" if device_kind == "cuda" and compiles else "longest"


@dataclass(frozen=True)
class Batch:
    """Padded rows for which a task makes the labels."""

    rows: Sequence[Row]
    starts: Sequence[int]
    """Index of the first token of each row: 0, except with padding on the left."""
    input_ids: np.ndarray
    """Token ids, rows x tokens. A row with several texts has a line for each of them."""
    attention_mask: np.ndarray
    """1 for a token, 0 for padding; same shape."""
    classes: int = 0
    """Number of classes of the channel's labels."""
    target_length: int | None = None
    """Length to which a decoder's targets are padded if the shapes of batches are limited; None: their longest."""

    @property
    def length(self) -> int:
        return int(self.input_ids.shape[1])


Targets = Callable[[Batch], dict[str, np.ndarray]]
"""Returns the label arrays of a batch under the model's names for them: a task's `targets`."""


class Collator:
    """Pads rows to a batch of tensors.

    With `batch_size`, it makes training batches, which carry `WORK`, `IS_PADDED` and `IS_COMPLETE`, and leave
    duplicates out. A batch of only duplicates keeps one of them, because the mean loss of no rows is not a number. This
    happens when the last step of an epoch has no row left for a process. The duplicate has no weight in the loss and
    counts as no work. Evaluation batches keep duplicates, because they must have the same size in all processes.
    Trainer discards their outputs.
    """

    def __init__(
        self, padding: Padding, metadata: ChannelMetadata, targets: Targets, batch_size: int | None = None
    ) -> None:
        self._padding, self._metadata, self._targets, self._batch_size = padding, metadata, targets, batch_size

    def __call__(self, batch: Sequence[Row]) -> dict[str, Any]:
        unique = [row for row in batch if DUPLICATE not in row]
        rows = (unique or batch[:1]) if self._batch_size else batch
        texts = [text for row in rows for text in _texts(row)]
        lengths = np.array([len(text["input_ids"]) for text in texts])
        length = int(self._padding.lengths(lengths.max(keepdims=True), lengths.min(keepdims=True))[0])
        ids = self._pad_column(texts, "input_ids", length, self._metadata.pad_token_id)
        mask = np.zeros_like(ids)
        spans = [self._span(len(row["input_ids"]), length) for row in texts]
        for line, span in zip(mask, spans):
            line[span] = 1
        target_length = self._metadata.options.get(MAX_TARGET_LENGTH) if self._padding.is_static else None
        starts, classes = [span.start for span in spans], len(self._metadata.label_names)
        labels = self._targets(Batch(rows, starts, ids, mask, classes, target_length))
        arrays = {"input_ids": ids, "attention_mask": mask, **labels}
        parts = lengths
        if self._metadata.is_packed:
            # transformers keeps texts apart whose positions restart, but only without a mask (`check_separation`).
            del arrays["attention_mask"]
            arrays["position_ids"] = _positions(rows, spans, ids.shape)
            parts = np.concatenate([row[SEGMENTS] for row in rows])
        if "token_type_ids" in rows[0]:
            pad_type = self._metadata.pad_token_type_id
            arrays["token_type_ids"] = self._pad_column(rows, "token_type_ids", length, pad_type)
        tensors: dict[str, Any] = {name: torch.from_numpy(array) for name, array in arrays.items()}
        if self._padding.is_packed:
            tensors[PACKED_TOKENS] = int(mask.sum())
        if self._batch_size:
            lengths = lengths.astype(np.int64)
            work = Work(
                samples=len(rows),
                tokens=int(lengths.sum()),
                positions=int(mask.sum()) if self._padding.is_packed else len(texts) * length,
                pairs=int((parts.astype(np.int64) ** 2).sum()),
            )
            if TARGET_IDS in rows[0]:
                decoded = np.array([len(row[TARGET_IDS]) for row in rows], np.int64)
                work = work._replace(
                    tokens=work.tokens + int(decoded.sum()),
                    positions=work.positions + arrays["labels"].size,
                    pairs=work.pairs + int((decoded * (decoded + lengths)).sum()),
                    decoder_tokens=int(decoded.sum()),
                )
            tensors[LABELS] = _label_count(labels.get("labels"), len(rows)) if unique else 0
            tensors[IS_PADDED] = not mask.all()
            tensors[IS_COMPLETE] = len(unique) == self._batch_size
            tensors[WORK] = work if unique else NO_WORK._replace(positions=work.positions)
        return tensors

    def _pad_column(self, rows: Sequence[Row], name: str, length: int, padding: int) -> np.ndarray:
        padded = np.full((len(rows), length), padding, dtype=np.int64)
        for line, row in zip(padded, rows):
            line[self._span(len(row[name]), length)] = row[name]
        return padded

    def _span(self, tokens: int, length: int) -> slice:
        return slice(length - tokens, length) if self._metadata.padding_side == "left" else slice(0, tokens)


def _label_count(labels: np.ndarray | None, rows: int) -> int:
    return rows if labels is None or labels.dtype.kind == "f" else int((labels != IGNORED_LABEL).sum())


def _positions(rows: Sequence[Row], spans: Sequence[slice], shape: tuple[int, ...]) -> np.ndarray:
    """Return the position of each token in its text, and 0 for padding, where each token is then a text of its own."""
    positions = np.zeros(shape, dtype=np.int64)
    for line, row, span in zip(positions, rows, spans):
        segments = row[SEGMENTS].astype(np.int64)
        starts = np.repeat(np.cumsum(segments) - segments, segments)
        line[span] = np.arange(len(starts)) - starts
    return positions


def _texts(row: Row) -> list[Row]:
    """Return a row of tokens for each text of a row: see `TEXT_LENGTHS`."""
    if TEXT_LENGTHS not in row:
        return [row]
    return [{"input_ids": tokens} for tokens in np.split(row["input_ids"], np.cumsum(row[TEXT_LENGTHS])[:-1])]


class Shape(NamedTuple):
    """A batch shape."""

    rows: int
    length: int
    is_masked: bool
    """True if the batch has padding. Without padding, models skip the attention mask, which is a different program."""


class Batches(NamedTuple):
    """Shapes of batches in order, one array element for each batch."""

    rows: np.ndarray
    lengths: np.ndarray
    masked: np.ndarray
    """True for each batch with padding."""
    positions: np.ndarray
    """Positions that the model's layers compute: rows times length, or the tokens with padding `none`."""


def planned_batches(order: np.ndarray, lengths: np.ndarray, batch_size: int, padding: Padding) -> Batches:
    """Return the batches cut from `order`, which contains row numbers with duplicates.

    `lengths` are the lengths of all rows.
    """
    starts = np.arange(0, len(order), batch_size)
    # A duplicate copies a row of the same batch, so it does not change the batch's lengths.
    ordered = lengths[order % len(lengths)]
    longest, shortest = np.maximum.reduceat(ordered, starts), np.minimum.reduceat(ordered, starts)
    rows = np.maximum(np.add.reduceat((order < len(lengths)).astype(int), starts), 1)
    padded = padding.lengths(longest, shortest)
    positions = rows * padded
    if padding.is_packed:
        # A batch of only duplicates keeps one of them.
        positions = np.maximum(np.add.reduceat(np.where(order < len(lengths), ordered, 0), starts), shortest)
    return Batches(rows, padded, shortest < padded, positions)


def planned_shapes(
    orders: Iterable[np.ndarray], lengths: np.ndarray, batch_size: int, max_batches: int, padding: Padding
) -> list[Shape]:
    """Return the distinct shapes of the complete batches cut from `orders`, smallest first.

    `orders` has one order for each epoch. Planning ends after `max_batches`. Incomplete batches run without a compiler.
    """
    shapes: set[Shape] = set()
    for order in orders:
        cut = order[: max(max_batches, 0) * batch_size]
        if len(cut) == 0:
            break
        max_batches -= -(-len(cut) // batch_size)
        distinct = np.unique(np.stack(planned_batches(cut, lengths, batch_size, padding)[:3], axis=1), axis=0)
        shapes |= {Shape(int(n), int(length), bool(masked)) for n, length, masked in distinct if n == batch_size}
    return sorted(shapes)


def step_positions(
    order: np.ndarray, lengths: np.ndarray, batch_size: int, batches_per_step: int, padding: Padding
) -> np.ndarray:
    """Return the number of token positions in each optimizer step, in all processes (see `Batches.positions`).

    The last step may have fewer batches than the others.
    """
    positions = planned_batches(order, lengths, batch_size, padding).positions
    return np.asarray(np.add.reduceat(positions, np.arange(0, len(positions), batches_per_step)))


def representatives(shapes: Sequence[Shape]) -> list[Shape]:
    """Return the shapes that a compiler with symbolic lengths must run.

    These are the smallest and the largest of those with padding, and of those without.
    """
    groups = [[shape for shape in shapes if shape.is_masked == is_masked] for is_masked in (False, True)]
    return sorted({extreme for group in groups if group for extreme in (min(group), max(group))}, reverse=True)


BATCHES_PER_POOL = 50
"""Rows are sorted by length within pools of this many batches: enough to need little padding, few enough to stay
shuffled."""


def length_grouped_order(lengths: np.ndarray, group_size: int, seed: int, epoch: int) -> np.ndarray:
    """Return every row number once, with rows of similar length next to each other.

    The rows are shuffled, cut into pools, sorted by length within each pool and cut into groups. A group has
    `group_size` rows: one batch for every device. The groups are then shuffled, except that an incomplete group comes
    last, so that batches never cross groups. The same arguments always give the same order.
    """
    random = np.random.Generator(np.random.PCG64([seed, epoch]))
    order = random.permutation(len(lengths))
    pool = np.arange(len(order)) // (group_size * BATCHES_PER_POOL)
    order = order[np.lexsort((-lengths[order], pool))]
    complete = len(order) // group_size * group_size
    groups = random.permutation(order[:complete].reshape(-1, group_size))
    return np.concatenate([groups.ravel(), order[complete:]])


def deal_to_processes(order: np.ndarray, batch_size: int, processes: int) -> np.ndarray:
    """Return the order extended to complete groups: one batch for every process in turn.

    The rows of an incomplete group are dealt out one by one, so that as few processes as possible get no row. A
    process's batch is completed with duplicates of its first row, or of the group's first row if it got none.
    """
    group_size = batch_size * processes
    rest = order[len(order) // group_size * group_size :]
    if processes == 1 or len(rest) == 0:
        return order
    group = np.empty((processes, batch_size), dtype=order.dtype)
    for process, batch in enumerate(group):
        own = rest[process::processes]
        batch[:] = (own if len(own) else rest)[0] + len(order)
        batch[: len(own)] = own
    return np.concatenate([order[: len(order) - len(rest)], group.ravel()])


class TrainSampler(Sampler):  # type: ignore[misc]
    """Yields the row numbers of the epoch that `set_epoch` selects. Trainer gives each process every n-th batch.

    With `drops_last`, an epoch omits the last rows if they do not fill a batch for every process.
    """

    def __init__(
        self,
        lengths: np.ndarray,
        batch_size: int,
        processes: int,
        seed: int,
        grouped: bool,
        drops_last: bool = False,
    ) -> None:
        self._lengths, self._batch_size, self._processes = lengths, batch_size, processes
        self._seed, self._grouped = seed, grouped
        self._group_size = batch_size * processes
        self._rows = len(lengths) - (len(lengths) % self._group_size if drops_last else 0)
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self._epoch = epoch

    def order(self, epoch: int) -> np.ndarray:
        """Return the row numbers of an epoch, for all processes."""
        if self._grouped:
            order = length_grouped_order(self._lengths, self._group_size, self._seed, epoch)
        else:
            order = np.random.Generator(np.random.PCG64([self._seed, epoch])).permutation(len(self._lengths))
        return deal_to_processes(order[: self._rows], self._batch_size, self._processes)

    def __len__(self) -> int:
        return self._rows if self._processes == 1 else -(-self._rows // self._group_size) * self._group_size

    def __iter__(self) -> Iterator[int]:
        yield from self.order(self._epoch).tolist()


class EvalSampler(TrainSampler):
    """Yields row numbers in order. Duplicates of the first row complete the last group."""

    def __init__(self, rows: int, batch_size: int, processes: int) -> None:
        super().__init__(np.zeros(rows), batch_size, processes, seed=0, grouped=False)

    def order(self, epoch: int) -> np.ndarray:
        return np.concatenate([np.arange(self._rows), np.full(len(self) - self._rows, self._rows)])
