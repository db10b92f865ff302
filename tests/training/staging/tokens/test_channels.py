"""Channels are written in row groups, and read in the container as they were appended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.job.data.channels import read_channel
from training.job.tasks import TASKS
from training.job.tasks.encodings import token_columns
from training.staging.tokens.channels import ChannelSummary, RowGroupFile, token_counts
from training.staging.tokens.rows import hash_of

METADATA = {
    "task": "classification",
    "label_names": ["a", "b"],
    "max_length": 9,
    "pad_token_id": 0,
    "pad_token_type_id": 0,
    "padding_side": "right",
}


def rows(first: int, count: int) -> dict[str, Any]:
    ids = [list(range(at, at + 1 + at % 5)) for at in range(first, first + count)]
    labels = pa.array([at % 2 for at in range(first, first + count)], pa.int64())
    return {**token_columns(ids, [[0] * len(each) for each in ids]), "label": labels}


def write(folder: Path, parts: list[int], **limits: int) -> Path:
    folder.mkdir()
    file, first = RowGroupFile(folder / "data.parquet", **limits), 0
    for count in parts:
        file.append(rows(first, count))
        first += count
    file.close()
    (folder / "channel.json").write_text(json.dumps({**METADATA, "rows": first}))
    return folder


@pytest.mark.parametrize("is_sharded", [False, True])
def test_a_large_channel_has_the_same_rows(tmp_path: Path, is_sharded: bool) -> None:
    """Row groups of one file, or the files of an earlier version."""
    parts = [3, 40, 1, 7, 7, 7]
    small, large = write(tmp_path / "small", parts), write(tmp_path / "large", parts, group_values=1)
    file = pq.ParquetFile(large / "data.parquet")
    assert file.metadata.num_row_groups == len(parts)
    if is_sharded:
        (large / "data.parquet").unlink()
        for number in range(len(parts)):
            pq.write_table(file.read_row_group(number), large / f"data-{number:05d}.parquet", store_schema=False)
    ours, theirs = (
        read_channel(folder, "classification", TASKS["classification"].integer_columns).rows
        for folder in (large, small)
    )
    assert np.array_equal(ours.tokens, theirs.tokens)
    assert np.array_equal(ours.lengths, theirs.lengths)
    assert np.array_equal(ours.columns["label"], theirs.columns["label"])


def test_lengths_by_hand() -> None:
    assert token_counts(token_columns([[1, 2], [3], [4, 5, 6]], None)).tolist() == [2, 1, 3]


@given(TEXTS := st.lists(st.text("abc", max_size=2)), TEXTS)
def test_rows_in_both_channels_are_counted(validation: list[str], train: list[str]) -> None:
    ours, theirs = ChannelSummary(max_length=8), ChannelSummary(max_length=8)
    for summary, texts in ((ours, ["x", *validation]), (theirs, ["y", *train])):
        for text in texts:
            summary.add_source_row([text])
    assert ours.rows_in(theirs) == sum(text in set(train) for text in validation)


def test_a_pair_is_not_its_joined_text() -> None:
    assert hash_of("a", "b") != hash_of("ab")
    assert hash_of("a", "b") != hash_of("b", "a")
