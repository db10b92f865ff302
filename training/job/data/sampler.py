"""Order the rows for training and evaluation, and divide them among the processes.

Training rows are shuffled, with rows of similar length in one batch. A row that only completes a process's batch is
called a duplicate. Its number is the copied row's number plus the number of rows, so that it does not count as work.
"""

from dataclasses import dataclass
from typing import Iterator, Optional

import numpy as np
from torch.utils.data import Sampler

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


def random_order(rows: int, seed: int, epoch: int) -> np.ndarray:
    """Return every row number once, shuffled: the order for padding that gains nothing from similar lengths."""
    return np.random.Generator(np.random.PCG64([seed, epoch])).permutation(rows)


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


def pad_to_full_batches(rows: int, batch_size: int, processes: int) -> np.ndarray:
    """Return the row numbers in order, extended to complete groups with duplicates of the first row."""
    group_size = batch_size * processes
    missing = -rows % group_size if processes > 1 else 0
    return np.concatenate([np.arange(rows), np.full(missing, rows)])


@dataclass(frozen=True)
class BatchSharding:
    """Division of rows among n processes: each takes every n-th batch."""

    batch_size: int
    """Rows in a process's batch."""
    processes: int
    """Number of processes."""
    process: Optional[int] = None
    """Rank of the process whose share a sampler yields. None yields all rows, for versions of Trainer that divide them
    themselves."""

    def shard(self, rows: np.ndarray) -> np.ndarray:
        """Return this process's share of complete groups."""
        if self.process is None or self.processes == 1:
            return rows
        return rows.reshape(-1, self.processes, self.batch_size)[:, self.process].ravel()

    def length(self, rows: int) -> int:
        """Return how many row numbers a sampler yields for `rows` rows."""
        if self.processes == 1:
            return rows
        groups = -(-rows // (self.batch_size * self.processes))
        return groups * self.batch_size * (self.processes if self.process is None else 1)


class TrainSampler(Sampler):  # type: ignore[misc]
    """Yields the row numbers of the epoch that `set_epoch` selects.

    With `drops_last`, an epoch omits the last rows if they do not fill a batch for every process.
    """

    def __init__(
        self, lengths: np.ndarray, sharding: BatchSharding, seed: int, grouped: bool, drops_last: bool = False
    ) -> None:
        self._lengths, self._sharding, self._seed, self._grouped = lengths, sharding, seed, grouped
        left_over = len(lengths) % (sharding.batch_size * sharding.processes) if drops_last else 0
        self._rows = len(lengths) - left_over
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Select the epoch to yield."""
        self._epoch = epoch

    def order(self, epoch: int) -> np.ndarray:
        """Return the row numbers of an epoch, for all processes."""
        sharding, rows = self._sharding, len(self._lengths)
        if self._grouped:
            order = length_grouped_order(self._lengths, sharding.batch_size * sharding.processes, self._seed, epoch)
        else:
            order = random_order(rows, self._seed, epoch)
        return deal_to_processes(order[: self._rows], sharding.batch_size, sharding.processes)

    def __len__(self) -> int:
        return self._sharding.length(self._rows)

    def __iter__(self) -> Iterator[int]:
        yield from self._sharding.shard(self.order(self._epoch)).tolist()


class EvalSampler(Sampler):  # type: ignore[misc]
    """Yields row numbers in order."""

    def __init__(self, rows: int, sharding: BatchSharding) -> None:
        self._rows, self._sharding = rows, sharding

    def __len__(self) -> int:
        return self._sharding.length(self._rows)

    def __iter__(self) -> Iterator[int]:
        rows = pad_to_full_batches(self._rows, self._sharding.batch_size, self._sharding.processes)
        yield from self._sharding.shard(rows).tolist()
