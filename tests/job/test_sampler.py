from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sampler import TrainSampler, shuffled

LENGTHS = st.lists(st.integers(1, 60), min_size=1, max_size=400).map(np.array)


def sampler(lengths: np.ndarray, batch_size: int = 4, shards: int = 1, shard: int = 0) -> TrainSampler:
    return TrainSampler(lengths, batch_size, shards, 7, grouped=True, shards=shards, shard=shard)


@given(LENGTHS, st.integers(1, 9), st.integers(0, 2**32 - 1), st.integers(0, 100))
def test_every_row_comes_once(lengths: np.ndarray, group_size: int, seed: int, epoch: int) -> None:
    order = shuffled(lengths, group_size, seed, epoch)
    assert sorted(order.tolist()) == list(range(len(lengths)))
    assert order.tolist() == shuffled(lengths, group_size, seed, epoch).tolist()


def test_epochs_and_seeds_differ() -> None:
    lengths = np.arange(1, 101)
    orders = {tuple(shuffled(lengths, 4, seed, epoch)) for seed in (1, 2) for epoch in (0, 1)}
    assert len(orders) == 4


def test_batches_hold_rows_of_like_length_and_are_not_sorted_themselves() -> None:
    lengths = np.random.default_rng(0).integers(1, 100, 800)
    batches = lengths[shuffled(lengths, 16, 3, 0)].reshape(-1, 16)
    spread = (batches.max(axis=1) - batches.min(axis=1)).mean()
    assert spread < 5  # of 99 where batches are drawn at random: about 87
    assert batches[:, 0].tolist() != sorted(batches[:, 0], reverse=True)


def test_an_incomplete_batch_comes_last() -> None:
    lengths = np.array([5, 5, 5, 5, 5, 1])
    assert lengths[shuffled(lengths, 4, 0, 0)].tolist()[-2:] == [5, 1]


def test_set_epoch_chooses_the_order() -> None:
    one = sampler(np.arange(1, 50))
    first = list(one)
    one.set_epoch(1)
    assert list(one) == one.order(1).tolist() != first
    one.set_epoch(0)
    assert list(one) == first
    assert len(one) == 49


@settings(max_examples=50)
@given(LENGTHS, st.integers(1, 5), st.integers(2, 4))
def test_shards_share_out_all_rows_evenly(lengths: np.ndarray, batch_size: int, shards: int) -> None:
    parts = [list(sampler(lengths, batch_size, shards, shard)) for shard in range(shards)]
    assert {len(part) for part in parts} == {len(sampler(lengths, batch_size, shards, 0))}
    together = [row for part in parts for row in part]
    assert set(together) == set(range(len(lengths)))
    assert len(together) < len(lengths) + batch_size * shards


def test_accelerate_shares_out_the_same_batches() -> None:
    """Newer versions of Trainer shard through accelerate's BatchSamplerShard."""
    from accelerate.data_loader import BatchSamplerShard
    from torch.utils.data import BatchSampler

    lengths = np.arange(1, 49)
    for shard in range(3):
        theirs = BatchSamplerShard(BatchSampler(sampler(lengths), 4, drop_last=False), 3, shard)
        ours = TrainSampler(lengths, 4, 1, 7, grouped=True, shards=3, shard=shard)
        assert [row for batch in theirs for row in batch] == list(ours)
