"""Row orders: every row once, similar lengths together, divided among processes."""

from __future__ import annotations

import numpy as np
from accelerate.data_loader import BatchSamplerShard
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import BatchSampler

from models.inference.predictor import evaluation_batches
from training.job.data.channels import Rows
from training.job.data.padding import EvalSampler, TrainSampler, deal_to_processes, length_grouped_order

LENGTHS = st.lists(st.integers(1, 60), min_size=1, max_size=400).map(np.array)


def parts_of(sampler: TrainSampler, batch_size: int, processes: int) -> list[list[int]]:
    """Return the rows of each process, as Trainer divides them."""
    batches = BatchSampler(sampler, batch_size, drop_last=False)
    if processes == 1:
        return [[row for batch in batches for row in batch]]
    shards = (BatchSamplerShard(batches, processes, process) for process in range(processes))
    return [[row for batch in shard for row in batch] for shard in shards]


@given(LENGTHS, st.integers(1, 9), st.integers(0, 2**32 - 1), st.integers(0, 100))
def test_orders_are_reproducible_and_have_every_row_once(
    lengths: np.ndarray, group_size: int, seed: int, epoch: int
) -> None:
    order = length_grouped_order(lengths, group_size, seed, epoch)
    assert sorted(order.tolist()) == list(range(len(lengths)))
    assert order.tolist() == length_grouped_order(lengths, group_size, seed, epoch).tolist()


def test_batches_have_rows_of_similar_length_in_random_order() -> None:
    lengths = np.random.default_rng(0).integers(1, 100, 800)
    batches = lengths[length_grouped_order(lengths, 16, 3, 0)].reshape(-1, 16)
    spread = (batches.max(axis=1) - batches.min(axis=1)).mean()
    assert spread < 5  # Lengths range from 1 to 99. In random batches, the spread is about 87.
    assert batches[:, 0].tolist() != sorted(batches[:, 0], reverse=True)


def test_an_incomplete_batch_comes_last() -> None:
    lengths = np.array([5, 5, 5, 5, 5, 1])
    assert lengths[length_grouped_order(lengths, 4, 0, 0)].tolist()[-2:] == [5, 1]


@settings(max_examples=50)
@given(LENGTHS, st.integers(1, 5), st.integers(2, 4))
def test_rows_are_divided_evenly_among_processes(lengths: np.ndarray, batch_size: int, processes: int) -> None:
    rows = len(lengths)
    sampler = TrainSampler(lengths, batch_size, processes, 7, grouped=True)
    parts = parts_of(sampler, batch_size, processes)
    assert {len(part) for part in parts} == {len(sampler) // processes}
    own = [[row for row in part if row < rows] for part in parts]
    # Every row occurs once, and the rows are divided as evenly as possible.
    assert sorted(row for part in own for row in part) == list(range(rows))
    assert max(map(len, own)) - min(map(len, own)) <= 1
    for part in parts:
        last = part[-batch_size:]
        kept = [row for row in last if row < rows]
        assert last[: len(kept)] == kept
        assert set(last[len(kept) :]) <= {rows + kept[0]} if kept else len(set(last)) == 1


def test_dealing_to_processes_by_hand() -> None:
    order = np.array([6, 5, 4, 3, 2, 1, 0])
    # Two processes, batches of 2: one complete group; then 2, 1 and 0 are dealt out, and 1 is repeated.
    assert deal_to_processes(order, 2, 2).tolist() == [6, 5, 4, 3, 2, 0, 1, 1 + 7]
    assert deal_to_processes(order[:5], 2, 2).tolist() == [6, 5, 4, 3, 2, 2 + 5, 2 + 5, 2 + 5]
    assert deal_to_processes(order, 2, 1).tolist() == order.tolist()


@given(st.integers(1, 50), st.integers(1, 5), st.integers(1, 4))
def test_gathered_evaluation_rows_are_in_order(rows: int, batch_size: int, processes: int) -> None:
    sampler = EvalSampler(rows, batch_size, processes)
    parts = parts_of(sampler, batch_size, processes)
    gathered = [
        row for at in range(0, len(parts[0]), batch_size) for part in parts for row in part[at : at + batch_size]
    ]
    assert gathered[:rows] == list(range(rows))
    assert all(row >= rows for row in gathered[rows:])
    assert [len(part) for part in parts] == [len(sampler) // processes] * processes


@given(st.lists(st.integers(1, 40), min_size=1, max_size=60), st.integers(1, 9))
def test_predictions_run_in_the_batches_of_the_evaluation(lengths: list[int], batch_size: int) -> None:
    ends = np.cumsum(lengths)
    rows = Rows(np.zeros(ends[-1], dtype=np.int64), ends, None, {}).sorted_by_length()
    order = rows.numbers[list(EvalSampler(len(rows), batch_size, 1))].tolist()
    expected = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
    assert evaluation_batches(lengths, batch_size) == expected[::-1]
