"""The order of the training rows: shuffled, with rows of like length in one batch."""

from typing import Iterator, List

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


class TrainSampler(Sampler):  # type: ignore[misc]
    """Yields row numbers of the epoch that `set_epoch` set.

    `shards` and `shard` are for transformers without accelerate, which leave the sharding to the sampler: each shard
    takes every `shards`-th batch, the first batches again where they do not share out.
    """

    def __init__(
        self, lengths: np.ndarray, batch_size: int, processes: int, seed: int, grouped: bool, shards: int, shard: int
    ) -> None:
        self._lengths, self._batch_size, self._seed, self._grouped = lengths, batch_size, seed, grouped
        self._group_size = batch_size * processes
        self._shards, self._shard = shards, shard
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose order comes next."""
        self._epoch = epoch

    def order(self, epoch: int) -> np.ndarray:
        """Return the row numbers of an epoch, of all shards."""
        if not self._grouped:
            return plainly_shuffled(len(self._lengths), self._seed, epoch)
        return shuffled(self._lengths, self._group_size, self._seed, epoch)

    def __len__(self) -> int:
        return sum(len(batch) for batch in self._shard_of(np.arange(len(self._lengths))))

    def __iter__(self) -> Iterator[int]:
        for batch in self._shard_of(self.order(self._epoch)):
            yield from batch.tolist()

    def _shard_of(self, order: np.ndarray) -> List[np.ndarray]:
        if self._shards == 1:
            return [order]
        size = self._batch_size * self._shards
        padded = np.resize(order, -(-len(order) // size) * size)
        return list(padded.reshape(-1, self._shards, self._batch_size)[:, self._shard])
