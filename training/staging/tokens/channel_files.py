"""Content of a task's two channels, and the files of a channel folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from training.staging.tokens.staged import DATA


@dataclass(frozen=True, kw_only=True)
class ChannelContent:
    """Content of one channel."""

    columns: Mapping[str, Any]
    """Column name to pyarrow array, all of equal length: input_ids, token_type_ids if any, and the task's columns."""
    lengths: list[int]
    """Length of each row in tokens."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Metadata of this channel for the job, in addition to the metadata of every task."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Content of additional files in the channel, by name."""


@dataclass(frozen=True, kw_only=True)
class Content:
    """Both channels of one staging."""

    train: ChannelContent
    validation: ChannelContent
    label_names: tuple[str, ...] = ()
    """Names in the order of the class numbers; empty if the task has no classes."""
    train_class_counts: tuple[int, ...] = ()
    """Number of training rows of each class."""
    validation_class_counts: tuple[int, ...] = ()
    """Number of validation rows of each class."""


def write_channel(folder: Path, content: ChannelContent, metadata: Mapping[str, Any]) -> None:
    """Write `data.parquet`, `channel.json` and the task's own files. `metadata` is common to both channels.

    The Parquet file has no library metadata, because the old library in a container cannot read that of a new one.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    pq.write_table(pa.table(dict(content.columns)), folder / DATA, store_schema=False)
    for name, data in content.files.items():
        (folder / name).write_bytes(data)
    fields = {**metadata, **content.metadata, "rows": len(content.lengths)}
    (folder / "channel.json").write_text(json.dumps(fields, indent=1, ensure_ascii=False), "utf-8")


def token_columns(input_ids: Sequence[Sequence[int]], token_type_ids: Sequence[Sequence[int]] | None) -> dict[str, Any]:
    """Return the columns with token ids and, if the model uses them, token types."""
    import pyarrow as pa

    columns = {"input_ids": pa.array(input_ids, pa.list_(pa.int32()))}
    if token_type_ids is not None:
        columns["token_type_ids"] = pa.array(token_type_ids, pa.list_(pa.int8()))
    return columns
