"""What a task stages: the columns of its two channels, and how a channel folder is written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from training.staging.tokens.staged import DATA


@dataclass(frozen=True, kw_only=True)
class ChannelContent:
    """Everything that one channel holds."""

    columns: Mapping[str, Any]
    """Column name to pyarrow array, all of one length: input_ids, token_type_ids where there are, the task's own."""
    lengths: list[int]
    """Tokens of each row."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What a job has to know of this channel beyond what holds for every task."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Further files of the channel, by name."""


@dataclass(frozen=True, kw_only=True)
class Content:
    """Both channels of one staging."""

    train: ChannelContent
    validation: ChannelContent
    label_names: tuple[str, ...] = ()
    """Names in the order of the class numbers; none where the task has no classes."""
    train_class_counts: tuple[int, ...] = ()
    """Training rows of each class."""
    validation_class_counts: tuple[int, ...] = ()
    """Validation rows of each class."""


def write_channel(folder: Path, content: ChannelContent, facts: Mapping[str, Any]) -> None:
    """Write `data.parquet`, `channel.json` and the task's own files; `facts` are those that hold for both channels.

    The Parquet is without library metadata: old versions in a container refuse new ones.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    pq.write_table(pa.table(dict(content.columns)), folder / DATA, store_schema=False)
    for name, written in content.files.items():
        (folder / name).write_bytes(written)
    text = json.dumps({**facts, **content.facts, "rows": len(content.lengths)}, indent=1, ensure_ascii=False)
    (folder / "channel.json").write_text(text, "utf-8")


def token_columns(input_ids: list[list[int]], token_type_ids: list[list[int]] | None) -> dict[str, Any]:
    """Return the columns that every task has."""
    import pyarrow as pa

    columns = {"input_ids": pa.array(input_ids, pa.list_(pa.int32()))}
    if token_type_ids is not None:
        columns["token_type_ids"] = pa.array(token_type_ids, pa.list_(pa.int8()))
    return columns
