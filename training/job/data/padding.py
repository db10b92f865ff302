"""Rows to batches: how long each batch is, and what fills it up."""

from dataclasses import dataclass
from typing import Any, Callable, Dict, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch

from data.channels import REPEAT, Facts, Row

IGNORED_LABEL = -100
"""Label that PyTorch's cross entropy leaves out of the loss."""

WORK = "work"
"""Key under which a training batch carries its `Work`."""


class Work(NamedTuple):
    """How much of a batch is work. Counted here, on the processor, so that no device has to be waited for."""

    samples: int
    """Rows of the data, without copies that fill up."""
    tokens: int
    """Tokens of those rows, without padding."""
    positions: int
    """Rows times length of the batch, all padding included."""

    def plus(self, other: "Work") -> "Work":
        """Return the sum."""
        return Work(*(mine + others for mine, others in zip(self, other)))


NO_WORK = Work(0, 0, 0)


@dataclass(frozen=True)
class Padding:
    """How long a batch becomes."""

    kind: str
    """longest | buckets | max_length."""
    max_length: int
    """Tokens; no row is longer."""
    bucket_lengths: Tuple[int, ...] = ()
    """Tokens, ascending."""
    leaves_room: bool = False
    """Pad at least one row where `max_length` allows it: models skip the attention mask of a batch without padding,
    which to a compiler is another program."""

    @property
    def is_static(self) -> bool:
        """Whether only few shapes occur, so that an incomplete batch is worth filling up."""
        return self.kind != "longest"

    def lengths(self, longest: np.ndarray, shortest: np.ndarray) -> np.ndarray:
        """Return the length in tokens of batches whose longest and shortest rows have these lengths."""
        if self.kind == "max_length":
            return np.full_like(longest, self.max_length)
        needed = np.minimum(longest + 1, self.max_length) if self.leaves_room else longest
        needed = np.where(longest == shortest, needed, longest)
        if self.kind == "longest":
            return needed
        buckets = np.array([length for length in self.bucket_lengths if length < self.max_length] + [self.max_length])
        return np.asarray(buckets[np.searchsorted(buckets, needed)])


@dataclass(frozen=True)
class Batch:
    """Padded rows, as a task sees them when it labels them."""

    rows: Sequence[Row]
    """The rows, without copies that fill up."""
    fill: int
    """Copies of the first row that follow: the loss must leave them out."""
    starts: Sequence[int]
    """Where the tokens of each row begin: 0, but for padding on the left."""
    input_ids: np.ndarray
    """Rows, with those that fill up, x tokens."""
    attention_mask: np.ndarray
    """1 for a token, 0 for padding; of the same shape."""

    @property
    def length(self) -> int:
        """Tokens of each row, padding included."""
        return int(self.input_ids.shape[1])


Targets = Callable[[Batch], Dict[str, np.ndarray]]
"""Gives the label arrays of a batch under the names that the model takes: a task's `targets`."""


class Collator:
    """Pads rows to a batch of tensors.

    With `batch_size` it makes training batches: they carry their `Work`, and where shapes are static an incomplete
    batch is filled up with copies of its first row, labelled so that the loss leaves them out. Repeats are no work: a
    training batch goes without them, and an evaluation's, whose size must be the same for all processes, has copies of
    its first row for them. A batch of nothing but repeats keeps one, because the mean loss over no rows is no number:
    so a process without a row of its own in the last step of an epoch repeats one, which counts for nothing but its
    gradient; what an evaluation makes of it is cut off.
    """

    def __init__(self, padding: Padding, facts: Facts, targets: Targets, batch_size: Optional[int] = None) -> None:
        self._padding, self._facts, self._targets, self._batch_size = padding, facts, targets, batch_size

    def __call__(self, batch: Sequence[Row]) -> Dict[str, Any]:
        own = [row for row in batch if REPEAT not in row]
        padded = self._padded_batch(own or batch[:1], self._fill(len(batch), max(len(own), 1)))
        if not own and self._batch_size:
            padded[WORK] = padded[WORK]._replace(samples=0, tokens=0)
        return padded

    def _padded_batch(self, rows: Sequence[Row], fill: int) -> Dict[str, Any]:
        lengths = np.array([len(row["input_ids"]) for row in rows])
        length = int(self._padding.lengths(lengths.max(keepdims=True), lengths.min(keepdims=True))[0])
        filled = [*rows, *[rows[0]] * fill]
        ids = self._padded(filled, "input_ids", length, self._facts.pad_token_id)
        mask = np.zeros_like(ids)
        places = [self._place(len(row["input_ids"]), length) for row in filled]
        for line, place in zip(mask, places):
            line[place] = 1
        labelled = self._targets(Batch(rows, fill, [place.start for place in places], ids, mask))
        arrays = {"input_ids": ids, "attention_mask": mask, **labelled}
        if "token_type_ids" in rows[0]:
            arrays["token_type_ids"] = self._padded(filled, "token_type_ids", length, self._facts.pad_token_type_id)
        batch: Dict[str, Any] = {name: torch.from_numpy(array) for name, array in arrays.items()}
        if self._batch_size:
            batch[WORK] = Work(len(rows), int(lengths.sum()), len(filled) * length)
        return batch

    def _fill(self, rows: int, own: int) -> int:
        if self._batch_size is None:
            return rows - own
        return self._batch_size - own if self._padding.is_static else 0

    def _padded(self, rows: Sequence[Row], name: str, length: int, filler: int) -> np.ndarray:
        padded = np.full((len(rows), length), filler, dtype=np.int64)
        for line, row in zip(padded, rows):
            line[self._place(len(row[name]), length)] = row[name]
        return padded

    def _place(self, tokens: int, length: int) -> slice:
        return slice(length - tokens, length) if self._facts.padding_side == "left" else slice(0, tokens)
