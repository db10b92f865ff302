"""The order of the rows: for training shuffled, with rows of like length in one batch; shared out over processes.

A row that only makes up a process's batch is a repeat: it is numbered on from the last row, so that whoever takes it
knows that it is no work.
"""

from dataclasses import dataclass
from typing import Iterator, Optional

import numpy as np
from torch.utils.data import Sampler

BATCHES_A_POOL = 50
"""Rows are sorted within pools of this many batches: enough for little padding, few enough to stay shuffled."""


def shuffled(lengths: np.ndarray, group_size: int, seed: int, epoch: int) -> np.ndarray:
    """Return every row number once, in an order that depends on nothing but the arguments.

    The rows are shuffled, cut into pools, sorted by length within each pool and cut into groups of `group_size` (what
    all devices take at a time), whose order is shuffled again. An incomplete group comes last, so that the batches
    cut from the order are the groups.
    """
    random = np.random.Generator(np.random.PCG64([seed, epoch]))
    order = random.permutation(len(lengths))
    pool = np.arange(len(order)) // (group_size * BATCHES_A_POOL)
    order = order[np.lexsort((-lengths[order], pool))]
    whole = len(order) // group_size * group_size
    groups = random.permutation(order[:whole].reshape(-1, group_size))
    return np.concatenate([groups.ravel(), order[whole:]])


def plainly_shuffled(rows: int, seed: int, epoch: int) -> np.ndarray:
    """Return every row number once: the order for padding that gains nothing from like lengths."""
    return np.random.Generator(np.random.PCG64([seed, epoch])).permutation(rows)


def dealt(order: np.ndarray, batch_size: int, processes: int) -> np.ndarray:
    """Return the order made up to whole groups, each a batch for every process in turn.

    The rows of an incomplete group are dealt out, so that as few processes as possible have none; a process's batch is
    made up with repeats of its own first row, or where it has none with one of another's.
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


def filled_up(rows: int, batch_size: int, processes: int) -> np.ndarray:
    """Return the rows in order, made up to whole groups with repeats of the first: what is gathered stays in order."""
    group_size = batch_size * processes
    missing = -rows % group_size if processes > 1 else 0
    return np.concatenate([np.arange(rows), np.full(missing, rows)])


@dataclass(frozen=True)
class Sharing:
    """How rows are shared out: each process takes every n-th batch."""

    batch_size: int
    """Rows of a process's batch."""
    processes: int
    """That share the rows."""
    process: Optional[int] = None
    """Whose share a sampler yields; None yields all, for versions of Trainer that share out themselves."""

    def of(self, rows: np.ndarray) -> np.ndarray:
        """Return this process's part of whole groups."""
        if self.process is None or self.processes == 1:
            return rows
        return rows.reshape(-1, self.processes, self.batch_size)[:, self.process].ravel()

    def length(self, rows: int) -> int:
        """Return how many a sampler yields when there are `rows` rows."""
        if self.processes == 1:
            return rows
        groups = -(-rows // (self.batch_size * self.processes))
        return groups * self.batch_size * (self.processes if self.process is None else 1)


class TrainSampler(Sampler):  # type: ignore[misc]
    """Yields row numbers of the epoch that `set_epoch` set.

    With `drops_last`, an epoch leaves out the rows that do not fill a batch of every process.
    """

    def __init__(
        self, lengths: np.ndarray, sharing: Sharing, seed: int, grouped: bool, drops_last: bool = False
    ) -> None:
        self._lengths, self._sharing, self._seed, self._grouped = lengths, sharing, seed, grouped
        left_over = len(lengths) % (sharing.batch_size * sharing.processes) if drops_last else 0
        self._rows = len(lengths) - left_over
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose order comes next."""
        self._epoch = epoch

    def order(self, epoch: int) -> np.ndarray:
        """Return the row numbers of an epoch, of all processes."""
        sharing, rows = self._sharing, len(self._lengths)
        if self._grouped:
            order = shuffled(self._lengths, sharing.batch_size * sharing.processes, self._seed, epoch)
        else:
            order = plainly_shuffled(rows, self._seed, epoch)
        return dealt(order[: self._rows], sharing.batch_size, sharing.processes)

    def __len__(self) -> int:
        return self._sharing.length(self._rows)

    def __iter__(self) -> Iterator[int]:
        yield from self._sharing.of(self.order(self._epoch)).tolist()


class EvalSampler(Sampler):  # type: ignore[misc]
    """Yields row numbers in order."""

    def __init__(self, rows: int, sharing: Sharing) -> None:
        self._rows, self._sharing = rows, sharing

    def __len__(self) -> int:
        return self._sharing.length(self._rows)

    def __iter__(self) -> Iterator[int]:
        yield from self._sharing.of(filled_up(self._rows, self._sharing.batch_size, self._sharing.processes)).tolist()
